#pragma once

#include <string>
#include <string_view>

namespace runner {

/// If `key` is how other programs name a tracking service, such as `use_wandb` and `report_to`,
/// returns what to write instead; otherwise "".
std::string instead_of_tracking_service(std::string_view key);

}  // namespace runner
