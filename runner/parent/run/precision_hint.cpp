#include "runner/parent/run/precision_hint.h"

#include <algorithm>

#include "runner/shared/value/value.h"

namespace runner {
namespace {

constexpr int kAmpere = 80;  // the first generation with bf16 and TF32

/// True if `precision`, a dtype or a mapping from modules to dtypes, uses only fp32.
bool is_fp32(const Value* precision) {
  if (!precision) return true;
  if (const auto* formats = precision->map())
    return std::ranges::all_of(*formats, [](const Entry& entry) { return is_fp32(&entry.value); });
  return precision->says("fp32");
}

bool uses_only_fp32(const Node& policy) {
  const Value* const tf32 = policy.options.find("tf32");
  const bool* const uses_tf32 = tf32 ? std::get_if<bool>(&tf32->data) : nullptr;
  return is_fp32(policy.options.find("precision")) && !(uses_tf32 && *uses_tf32);
}

}  // namespace

std::string precision_hint(const Graph& graph, std::string_view gpu, int capability) {
  if (capability < kAmpere) return "";
  std::string overrides;
  for (const Node& node : graph.nodes) {
    if (node.kind != "memory.policy") continue;
    if (!uses_only_fp32(node)) return "";
    if (overrides.empty())
      overrides = node.stage + ".precision=bf16 or " + node.stage + ".tf32=true";
  }
  if (overrides.empty()) return "";
  return std::string(gpu) +
         " has formats that are faster than fp32 but change the training: " + overrides;
}

}  // namespace runner
