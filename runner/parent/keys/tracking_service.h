#pragma once

#include <string>
#include <string_view>

namespace runner {

/// If other programs use `key` to select a tracking service (`use_wandb`, `report_to`), returns
/// what to write instead; otherwise "".
std::string instead_of_tracking_service(std::string_view key);

}  // namespace runner
