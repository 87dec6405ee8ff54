#include "runner/parent/page/event_rows.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/record/run_summary.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using EventRows = std::vector<std::vector<std::string>>;

std::string json_text(const nlohmann::ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// `attempt` is "" or ", attempt 1".
void add_diagnostics(EventRows& rows, const nlohmann::ordered_json& list,
                     const std::string& attempt) {
  if (!list.is_array()) return;
  for (const auto& one : list) {
    if (!one.is_object()) continue;
    std::string what = json_text(one, "message");
    if (const std::string help = json_text(one, "help"); !help.empty()) what += "; " + help;
    rows.push_back({json_text(one, "severity") + " " + json_text(one, "code") + attempt,
                    json_text(one, "pointer"), std::move(what)});
  }
}

/// Adds how the attempts before the last one ended.
void add_attempts(EventRows& rows, const nlohmann::ordered_json& summary) {
  const auto earlier = summary.find("earlier");
  if (earlier == summary.end() || !earlier->is_array()) return;
  for (std::size_t i = 0; i < earlier->size(); ++i) {
    const auto& one = (*earlier)[i];
    if (!one.is_object()) continue;
    add_diagnostics(rows, one.value("diagnostics", nlohmann::ordered_json()),
                    ", attempt " + std::to_string(i + 1));
    rows.push_back({"attempt", "",
                    "attempt " + std::to_string(i + 1) + " ended: " + json_text(one, "status")});
  }
}

/// Returns "out of memory in backward at step 3 (64 KiB were requested while 6.1 MiB were in use):
/// from the whole batch of 8 to micro_batch 4".
std::string recovery_in_words(const Recovery& one) {
  std::string text = one.cause;
  if (!one.phase.empty()) text += " in " + one.phase;
  if (one.step > 0) text += " at step " + std::to_string(one.step);
  if (one.tried > 0) {
    text += " (" + bytes_text(one.tried) + " were requested while " + bytes_text(one.taken) +
            (one.limit > 0 ? " of " + bytes_text(one.limit) : "") + " were in use)";
  }
  if (one.from == one.to) return text + "; continued as before: " + one.to;
  return text + ": from " + one.from + " to " + one.to;
}

/// Adds a row for each training stage that skipped steps.
void add_skipped_steps(EventRows& rows, const std::vector<MetricLine>& metrics) {
  constexpr std::size_t kMostEpochs = 5;
  struct Skipped {
    std::string node;
    std::size_t steps = 0;
    std::vector<std::string> epochs = {};
  };
  std::vector<Skipped> all;
  for (const MetricLine& line : metrics) {
    const NodeMetric& metric = line.metric;
    if (metric.name != kSkippedSteps || !(metric.value >= 1 && metric.value < 1e12)) continue;
    if (all.empty() || all.back().node != metric.node) all.push_back({metric.node});
    const auto count = static_cast<std::size_t>(metric.value);
    all.back().steps += count;
    all.back().epochs.push_back(std::to_string(count) + " in the epoch up to step " +
                                std::to_string(metric.step));
  }
  for (const auto& [node, steps, epochs] : all)
    rows.push_back({"skipped steps", node,
                    counted(steps, "step") + " skipped because gradients overflowed fp16: " +
                        listed(epochs, kMostEpochs)});
}

}  // namespace

std::vector<std::vector<std::string>> event_rows(const RunDetails& details,
                                                 const RunReport& report) {
  EventRows rows = {{"event", "node", "what happened"}};
  add_attempts(rows, details.summary);
  add_diagnostics(rows, details.summary.value("diagnostics", nlohmann::ordered_json()), "");
  const RunLayout layout(details.run.folder);
  for (const auto& [node, recovery] : recorded_recoveries(layout.summary()))
    rows.push_back({"recovery", node, recovery_in_words(recovery)});
  add_skipped_steps(rows, report.metrics);
  std::error_code ignored;
  for (int i = 1; std::filesystem::is_directory(layout.resume(i), ignored); ++i)
    rows.push_back({"resume", "", "resumed, attempt " + std::to_string(i + 1)});
  return rows;
}

}  // namespace runner
