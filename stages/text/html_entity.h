#pragma once

#include <optional>
#include <string_view>

#include "stages/text/code_points.h"

namespace stages {

/// The HTML entity that `text` begins with, and how long it is: &amp; &lt; &gt; &quot; &apos; in lower case, or a
/// character's number, &#233; or &#xE9;, of printable ASCII or of what lies beyond Latin-1's signs. nullopt where
/// `text` begins with none of these, be it that it begins with another one.
std::optional<CodePoint> html_entity(std::string_view text);

/// May HTML find an entity at the ampersand that stands before `text`? It knows many without the semicolon, and none
/// whose name has fewer than two letters.
bool may_be_entity(std::string_view text);

}  // namespace stages
