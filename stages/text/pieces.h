#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

namespace stages {

/// What is done to a text before it is divided: as transformers' tokenizer does, or as OpenAI's and open_clip's do.
enum class TextCleaning { kTransformers, kOpenai };

/// What open_clip takes for the start and the end of a text where a piece begins with it.
inline constexpr std::array<std::string_view, 2> kOpenaiMarks = {"<start_of_text>", "<end_of_text>"};

/// `text`, which is well-formed UTF-8, cleaned. White space is left as it is: it only divides. kOpenai repairs what has
/// been decoded wrongly, resolves HTML entities and replaces typographic characters. Here the entities of html_entity.h
/// are resolved; a text to which anything else of that may happen is refused: throws std::invalid_argument saying which
/// character is why, in half a sentence.
std::string cleaned(std::string_view text, TextCleaning cleaning);

/// Calls `use` with every piece of a cleaned text, in order: an English contraction, a run of letters, a single
/// number, or a run of what is neither of these nor white space. kOpenai gives kOpenaiMarks as pieces of their own.
void for_pieces(std::string_view text, TextCleaning cleaning, const std::function<void(std::string_view piece)>& use);

}  // namespace stages
