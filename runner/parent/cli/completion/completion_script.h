#pragma once

#include <string_view>

namespace runner {

/// What makes a shell, "bash", "zsh" or "fish", complete the words of `retort`; empty for any other. Each asks the
/// program itself, `retort __complete`, at every press of the key.
std::string_view completion_script(std::string_view shell);

}  // namespace runner
