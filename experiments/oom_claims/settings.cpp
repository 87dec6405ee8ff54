#include <c10/core/AllocatorConfig.h>

#include <torch/types.h>

#include "experiments/oom_claims/claim.h"

namespace oom_claims {

Finding settings_must_precede_import() {
  const auto is_on = [] {
    return c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments();
  };
  const bool before = is_on();
  const at::Tensor tensor = torch::ones({16});
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  const bool after = is_on();
  c10::CachingAllocator::setAllocatorSettings(before ? "expandable_segments:True"
                                                     : "expandable_segments:False");
  const auto told = [](bool on) { return std::string(on ? "on" : "off"); };
  return {.verdict = after ? Verdict::kWrong : Verdict::kRight,
          .measured = "expandable segments, as read back: " + told(before) +
                      " after LibTorch is loaded and a tensor is created, " + told(after) +
                      " after the call",
          .instead =
              "it must be configured before the first allocation on the device; an API call can do "
              "this, and the setting can be read back"};
}

}  // namespace oom_claims
