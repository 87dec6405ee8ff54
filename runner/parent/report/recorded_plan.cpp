#include "runner/parent/report/recorded_plan.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

std::optional<MemoryPlan> recorded_plan(const std::filesystem::path& run, const std::string& node) {
  constexpr std::size_t kLargestPlan = 16 << 20;  // bytes
  const auto text = real_file_system().read(RunLayout(run).node(node).plan(), kLargestPlan);
  if (!text) return std::nullopt;
  try {
    return memory_plan_from_json(parse_json<nlohmann::ordered_json>(*text));
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

std::optional<std::int64_t> planned_bytes_of(const std::filesystem::path& run) {
  constexpr std::int64_t kMost = 16 << 20;  // maximum number of bytes of a plan.json
  const RunLayout layout(run);
  std::optional<std::int64_t> most;
  for (const std::string& node : real_file_system().list(layout.nodes())) {
    const auto text = real_file_system().read(layout.node(node).plan(), kMost);
    const auto plan = text ? parse_json<nlohmann::json>(*text) : nlohmann::json();
    const auto needed = plan.is_object() ? plan.find("needed") : plan.end();
    if (!plan.is_object() || needed == plan.end() || !needed->is_number_integer()) continue;
    most = std::max(most.value_or(0), needed->get<std::int64_t>());
  }
  return most;
}

}  // namespace runner
