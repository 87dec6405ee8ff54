#include "runner/parent/report/plan_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "runner/shared/text/decimal.h"
#include "runner/parent/report/table.h"
#include "runner/shared/text/bytes.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::size_t kLongestOverride = 60;  // columns

using Rows = std::vector<std::vector<std::string>>;

/// "2.28 TFLOP".
std::string flops_text(double flops) {
  constexpr std::array kUnits = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flops >= 999.5 && unit + 1 < kUnits.size(); ++unit) flops /= 1000;
  return decimal(flops, unit == 0 || flops >= 99.5 ? 0 : flops >= 9.995 ? 1 : 2) + " " + kUnits[unit];
}

/// "micro_batch 8", "two_pass off".
std::string setting_text(const std::string& name, const nlohmann::ordered_json& value) {
  if (name == "micro_batch" && value == 0) return "the whole batch";
  if (value.is_boolean()) return name + (value.get<bool>() ? " on" : " off");
  return name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
}

std::string step_text(const MemoryPlan& plan) {
  std::string text;
  if (plan.step.is_object()) {
    for (const auto& [name, value] : plan.step.items()) text += (text.empty() ? "" : ", ") + setting_text(name, value);
  }
  if (plan.flops > 0) text += (text.empty() ? "" : "; ") + flops_text(plan.flops);
  return text;
}

/// A table with a line before it, indented; nothing for a table without rows.
std::string section(const std::string& title, const Rows& rows) {
  if (rows.size() < 2) return "";
  std::string text = "\n  " + title + "\n", line;
  for (const char letter : table_text(rows)) {
    if (line.empty()) line = "    ";
    line += letter;
    if (letter != '\n') continue;
    text += line;
    line.clear();
  }
  return text;
}

std::string need_text(const MemoryPlan& plan) {
  std::string text = "needs " + size_text(plan.predicted);
  if (!plan.held.empty()) text += ", " + held_text(plan) + ",";
  if (const auto cache = std::ranges::find(plan.terms, kCacheTerm, &NamedBytes::name); cache != plan.terms.end())
    text += (plan.held.empty() ? ", " : " ") + size_text(cache->bytes) + " of it to keep pictures in,";
  if (!plan.budget) return text + "; no budget is known";
  text += " of " + size_text(*plan.budget) + " (" + plan.budget_from + "): ";
  return plan.fits() ? text + "fits, " + size_text(*plan.budget - plan.predicted) + " to spare"
                     : text + "does not fit, " + size_text(plan.predicted - *plan.budget) + " too much" +
                           (plan.must_fit ? "" : "; it starts all the same (memory.on_oom_policy: legacy)");
}

std::string curve_text(const MemoryPlan& plan, const TextStyle& style) {
  if (plan.curve.empty()) return "";
  const TextStyle inner{.width = std::max<std::size_t>(style.width, 12) - 4, .has_blocks = style.has_blocks};
  std::string text = "\n  live bytes over a step, up to " + size_text(*std::ranges::max_element(plan.curve)) +
                     "\n    " + sparkline(plan.curve, inner) + "\n";
  const std::string names = phase_line(plan.phases, plan.curve.size(), inner);
  return names.empty() ? text : text + "    " + names + "\n";
}

std::string largest_text(const MemoryPlan& plan) {
  Rows rows = {{"bytes", "owner", "what", "shape", "", "made by"}};
  for (const AliveTensor& tensor : plan.largest) {
    rows.push_back(
        {size_text(tensor.bytes), tensor.owner, tensor.name, shape_text(tensor.shape), tensor.dtype, tensor.operation});
  }
  return section("largest at the peak", rows);
}

std::string named_text(const std::string& title, const std::vector<NamedBytes>& items) {
  Rows rows = {{"bytes", "of", ""}};
  for (const NamedBytes& item : items) rows.push_back({size_text(item.bytes), item.name, item.note});
  return section(title, rows);
}

std::string options_text(const MemoryPlan& plan) {
  Rows rows = {{"saves", "option", ""}};
  for (const OptionEffect& effect : plan.options)
    rows.push_back({size_text(effect.bytes), effect.option + "=" + effect.value, effect.note});
  return section("what the recipe's memory options save at the peak", rows);
}

/// By how many bytes it is over or under the budget.
std::string margin_text(const PlanAlternative& other, const MemoryPlan& plan) {
  if (!other.refused.empty()) return "refused: " + other.refused;
  if (!plan.budget) return "";
  const std::int64_t spare = *plan.budget - other.predicted;
  return spare >= 0 ? "fits, " + size_text(spare) + " to spare" : size_text(-spare) + " too much";
}

/// Overrides, of long lists of modules the first and how many follow.
std::string brief_text(std::vector<std::string> overrides) {
  for (std::string& one : overrides) {
    const std::size_t list = one.find("=["), first = one.find(',', list);
    if (columns(one) <= kLongestOverride || list == one.npos || first == one.npos) continue;
    one = one.substr(0, first) + ", … " + std::to_string(std::ranges::count(one, ',')) + " more]";
  }
  return override_text(overrides);
}

std::string alternatives_text(const MemoryPlan& plan) {
  Rows rows = {{"needs", "with", "result", "compute", "launches", ""}};
  for (const PlanAlternative& other : plan.alternatives) {
    const bool is_one = other.refused.empty();
    rows.push_back({is_one ? size_text(other.predicted) : "–", brief_text(other.overrides), other.exactness,
                    is_one ? decimal(other.relative_flops, 2) + "x" : "–",
                    is_one ? decimal(other.relative_operations, 2) + "x" : "–", margin_text(other, plan)});
  }
  return section("alternatives, cheapest first; launches: operations started, each with a fixed cost", rows);
}

/// "3.1e-16", "0", "inf".
std::string scientific(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string verdict(const Certificate& certificate) {
  const std::string node = printable(certificate.node);
  if (!certificate.refused.empty()) return "FAIL  " + node + ": " + printable(certificate.refused);
  if (certificate.parameters.empty()) return "FAIL  " + node + ": no gradient was compared";
  const std::string errors = "the largest relative error of " + std::to_string(certificate.parameters.size()) +
                             (certificate.parameters.size() == 1 ? " gradient is " : " gradients is ") +
                             scientific(certificate.worst());
  const std::string limit = scientific(Certificate::kLimit);
  if (!(certificate.worst() < Certificate::kLimit)) return "FAIL  " + node + ": " + errors + ", not below " + limit;
  if (!certificate.changed.empty())
    return "FAIL  " + node + ": " + errors +
           ", but not only the gradient counts: " + printable(certificate.changed.front());
  return "PASS  " + node + ": " + errors + ", below " + limit;
}

}  // namespace

std::string plan_text(const MemoryPlan& plan, const TextStyle& style) {
  std::string text = plan.node + " on " + plan.device;
  if (plan.threads > 0) text += ", " + std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads");
  text += "\n  " + need_text(plan) + "\n  peak";
  if (!plan.peak_phase.empty()) text += " in " + plan.peak_phase;
  if (!plan.peak_operation.empty()) text += " at " + plan.peak_operation;
  text += ": live " + size_text(plan.live) + ", reserved " + size_text(plan.reserved) + "\n";
  if (const std::string step = step_text(plan); !step.empty()) text += "  a step: " + step + "\n";
  if (plan.choice) text += "  " + choice_text(plan) + "\n";
  text += curve_text(plan, style);
  text += named_text("live at the peak", plan.owners);
  text += largest_text(plan);
  text += named_text("besides the tensors, an estimate for the backend (" + plan.terms_version + ")", plan.terms);
  text += named_text("held by earlier nodes until their results have been used", plan.held);
  text += options_text(plan);
  text += alternatives_text(plan);
  // What comes from weights' and stages' names is not obeyed by a terminal.
  std::string safe;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    safe += printable(std::string_view(text).substr(start, end - start)) + "\n";
    start = end + 1;
  }
  return safe;
}

std::string certificate_text(const Certificate& certificate) {
  std::string text;
  if (!certificate.compared.empty())
    text += printable(certificate.node) + ", in float64: " + printable(certificate.compared) + "\n";
  std::vector<std::vector<std::string>> rows = {{"error", "gradient of"}};
  for (const auto& [name, error] : certificate.parameters) rows.push_back({scientific(error), printable(name)});
  if (rows.size() > 1) text += table_text(rows);
  for (const std::string& changed : certificate.changed) text += "changed: " + printable(changed) + "\n";
  return text + verdict(certificate) + "\n";
}

}  // namespace runner
