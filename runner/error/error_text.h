#pragma once

#include <span>
#include <string_view>

#include "runner/error/error_code.h"

namespace runner {

/// What `retort explain E0123` says of a code beside its title.
struct ErrorText {
  ErrorCode code;
  std::string_view cause;    ///< when it is reported
  std::string_view example;  ///< something that is reported so: a line of a file, a command, a situation
  std::string_view remedy;
};

/// The text of every code, in the order of all_errors().
std::span<const ErrorText> error_texts();
const ErrorText& text_of(ErrorCode code);

}  // namespace runner
