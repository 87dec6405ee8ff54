#include "runner/parent/report/plan_text.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "runner/parent/report/table_text.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kLetters = {"_", ".", "-", "=", "+", "*", "#", "@"};

/// Returns the number of columns for a curve of `points` values.
std::size_t columns_for(std::size_t points, const TextStyle& style) {
  return std::min(points, style.width);
}

}  // namespace

std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style) {
  const std::size_t columns = columns_for(values.size(), style);
  if (columns == 0) return "";
  const auto& levels = style.has_blocks ? kBlocks : kLetters;
  const std::int64_t top = std::max<std::int64_t>(1, *std::ranges::max_element(values));
  std::string line;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t first = i * values.size() / columns, last = (i + 1) * values.size() / columns;
    const std::int64_t value = *std::max_element(values.begin() + first, values.begin() + last);
    if (value <= 0) {
      line += ' ';
      continue;
    }
    const double share = static_cast<double>(value) / static_cast<double>(top);
    line += levels[std::min(levels.size() - 1, static_cast<std::size_t>(share * levels.size()))];
  }
  return line;
}

std::string phase_line(std::span<const PhaseMark> phases, std::size_t points,
                       const TextStyle& style) {
  const std::size_t columns = columns_for(points, style);
  struct Name {
    std::string_view text;
    std::size_t at = 0, lasts = 0;
  };
  std::vector<Name> names;
  for (std::size_t i = 0; i < phases.size() && points > 0; ++i) {
    const std::size_t begin = std::min(phases[i].point, points);
    const std::size_t end = i + 1 < phases.size() ? std::min(phases[i + 1].point, points) : points;
    names.push_back({phases[i].phase, begin * columns / points, end > begin ? end - begin : 0});
  }
  std::ranges::stable_sort(names, std::greater(), &Name::lasts);
  std::string line(columns, ' ');
  for (const Name& name : names) {
    if (name.lasts == 0 || name.at + name.text.size() > columns) continue;
    const std::size_t before = name.at == 0 ? 0 : name.at - 1;
    const std::size_t after = std::min(columns, name.at + name.text.size() + 1);
    if (line.substr(before, after - before).find_first_not_of(' ') != line.npos) continue;
    line.replace(name.at, name.text.size(), name.text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

namespace {

constexpr std::size_t kLongestOverride = 60;  // columns

using Rows = std::vector<std::vector<std::string>>;

/// Returns "2.28 TFLOP".
std::string flops_text(double flops) {
  constexpr std::array kUnits = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  std::size_t unit = 0;
  for (; flops >= 999.5 && unit + 1 < kUnits.size(); ++unit) flops /= 1000;
  return decimal(flops, unit == 0 || flops >= 99.5 ? 0
                        : flops >= 9.995           ? 1
                                                   : 2) +
         " " + kUnits[unit];
}

/// Returns "micro_batch 8" or "two_pass off".
std::string setting_text(const std::string& name, const nlohmann::ordered_json& value) {
  if (name == "micro_batch" && value == 0) return "the whole batch";
  if (value.is_boolean()) return name + (value.get<bool>() ? " on" : " off");
  return name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
}

std::string step_text(const MemoryPlan& plan) {
  std::string text;
  if (plan.step.is_object()) {
    for (const auto& [name, value] : plan.step.items())
      text += (text.empty() ? "" : ", ") + setting_text(name, value);
  }
  if (plan.flops > 0) text += (text.empty() ? "" : "; ") + flops_text(plan.flops);
  return text;
}

/// Returns `text` with `indentation` before each line that is not empty.
std::string indented(std::string_view text, const std::string& indentation) {
  std::string result;
  for (bool is_start = true; const char letter : text) {
    if (is_start && letter != '\n') result += indentation;
    result += letter;
    is_start = letter == '\n';
  }
  return result;
}

/// Returns an indented table below a title line; empty if the table has no rows.
std::string section(const std::string& title, const Rows& rows, const TextStyle& style) {
  if (rows.size() < 2) return "";
  const std::string indentation(4, ' ');
  return "\n  " + title + "\n" +
         indented(table_text(rows, style.table_width(indentation.size())), indentation);
}

std::string need_text(const MemoryPlan& plan) {
  std::string text = "needs " + size_text(plan.needed);
  if (!plan.held.empty()) text += ", " + held_text(plan) + ",";
  if (const auto cache = std::ranges::find(plan.terms, kCacheTerm, &NamedBytes::name);
      cache != plan.terms.end())
    text += (plan.held.empty() ? ", " : " ") + size_text(cache->bytes) + " of it to cache images,";
  if (!plan.budget) return text + "; no budget is known";
  text += " of " + size_text(*plan.budget) + " (" + plan.budget_from + "): ";
  return plan.fits()
             ? text + "fits, " + size_text(*plan.budget - plan.needed) + " to spare"
             : text + "does not fit, " + size_text(plan.needed - *plan.budget) + " too much" +
                   (plan.must_fit ? "" : "; it runs anyway (memory.on_oom_policy: legacy)");
}

std::string curve_text(const MemoryPlan& plan, const TextStyle& style) {
  if (plan.curve.empty()) return "";
  TextStyle inner = style;
  inner.width = std::max<std::size_t>(style.width, 12) - 4;
  std::string text = "\n  live bytes over a step, up to " +
                     size_text(*std::ranges::max_element(plan.curve)) + "\n    " +
                     sparkline(plan.curve, inner) + "\n";
  const std::string names = phase_line(plan.phases, plan.curve.size(), inner);
  return names.empty() ? text : text + "    " + names + "\n";
}

std::string largest_text(const MemoryPlan& plan, const TextStyle& style) {
  Rows rows = {{"bytes", "owner", "what", "shape", "", "made by"}};
  for (const AliveTensor& tensor : plan.largest) {
    rows.push_back({size_text(tensor.bytes), tensor.owner, tensor.name, shape_text(tensor.shape),
                    tensor.dtype, tensor.operation});
  }
  return section("largest at the peak", rows, style);
}

std::string named_text(const std::string& title, const std::vector<NamedBytes>& items,
                       const TextStyle& style) {
  Rows rows = {{"bytes", "of", ""}};
  for (const NamedBytes& item : items)
    rows.push_back({size_text(item.bytes), item.name, item.note});
  return section(title, rows, style);
}

std::string options_text(const MemoryPlan& plan, const TextStyle& style) {
  Rows rows = {{"saves", "option", ""}};
  for (const OptionEffect& effect : plan.options)
    rows.push_back({size_text(effect.bytes), effect.option + "=" + effect.value, effect.note});
  return section("saved at the peak by the recipe's memory options", rows, style);
}

/// Returns by how many bytes the alternative is below or above the budget.
std::string margin_text(const PlanAlternative& other, const MemoryPlan& plan) {
  if (!other.refused.empty()) return "refused: " + other.refused;
  if (!plan.budget) return "";
  const std::int64_t spare = *plan.budget - other.needed;
  return spare >= 0 ? "fits, " + size_text(spare) + " to spare" : size_text(-spare) + " too much";
}

/// Returns the overrides as text, with a long list of modules shortened to the first one and the
/// number of others.
std::string brief_text(std::vector<std::string> overrides) {
  for (std::string& one : overrides) {
    const std::size_t list = one.find("=["), first = one.find(',', list);
    if (columns(one) <= kLongestOverride || list == one.npos || first == one.npos) continue;
    one = one.substr(0, first) + ", … " + std::to_string(std::ranges::count(one, ',')) + " more]";
  }
  return override_text(overrides);
}

std::string alternatives_text(const MemoryPlan& plan, const TextStyle& style) {
  Rows rows = {{"needs", "", "with", "result", "compute", "launches"}};
  for (const PlanAlternative& other : plan.alternatives) {
    const bool is_one = other.refused.empty();
    rows.push_back({is_one ? size_text(other.needed) : "–", margin_text(other, plan),
                    brief_text(other.overrides), other.exactness,
                    is_one ? decimal(other.relative_flops, 2) + "x" : "–",
                    is_one ? decimal(other.relative_operations, 2) + "x" : "–"});
  }
  return section(
      "alternatives, cheapest first; launches: operations started, each with a fixed cost", rows,
      style);
}

/// Returns "3.1e-16", "0" or "inf".
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
  const std::string errors =
      "the largest relative error of " + std::to_string(certificate.parameters.size()) +
      (certificate.parameters.size() == 1 ? " gradient is " : " gradients is ") +
      scientific(certificate.worst());
  const std::string limit = scientific(certificate.limit);
  if (!(certificate.worst() < certificate.limit))
    return "FAIL  " + node + ": " + errors + ", not below " + limit;
  if (!certificate.changed.empty())
    return "FAIL  " + node + ": " + errors +
           ", but other values differ too: " + printable(certificate.changed.front());
  return "PASS  " + node + ": " + errors + ", below " + limit;
}

}  // namespace

std::string plan_text(const MemoryPlan& plan, const TextStyle& style) {
  std::string text = plan.node + " on " + plan.device;
  if (plan.threads > 0)
    text += ", " + std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads");
  text += "\n  " + need_text(plan) + "\n  peak";
  if (!plan.peak_phase.empty()) text += " in " + plan.peak_phase;
  if (!plan.peak_operation.empty()) text += " at " + plan.peak_operation;
  text += ": live " + size_text(plan.live) + ", reserved " + size_text(plan.reserved) + "\n";
  if (const std::string step = step_text(plan); !step.empty()) text += "  a step: " + step + "\n";
  if (plan.choice) text += "  " + choice_text(plan) + "\n";
  if (!plan.measured.empty()) text += "  " + measured_text(plan) + "\n";
  text += curve_text(plan, style);
  text += named_text("live at the peak", plan.owners, style);
  text += largest_text(plan, style);
  text += named_text(
      "estimate for the backend, in addition to the tensors (" + plan.terms_version + ")",
      plan.terms, style);
  text += named_text("held by earlier nodes until their results are used", plan.held, style);
  text += options_text(plan, style);
  text += alternatives_text(plan, style);
  // Escapes control characters in the names of weights and stages.
  std::string safe;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    safe += printable(std::string_view(text).substr(start, end - start)) + "\n";
    start = end + 1;
  }
  return safe;
}

std::string certificate_text(const Certificate& certificate, const TextStyle& style) {
  std::string text;
  if (!certificate.compared.empty())
    text += printable(certificate.node) + ", in float64: " + printable(certificate.compared) + "\n";
  std::vector<std::vector<std::string>> rows = {{"error", "gradient of"}};
  for (const auto& [name, error] : certificate.parameters)
    rows.push_back({scientific(error), printable(name)});
  if (rows.size() > 1) text += table_text(rows, style.table_width());
  for (const std::string& changed : certificate.changed)
    text += "changed: " + printable(changed) + "\n";
  return text + verdict(certificate) + "\n";
}

namespace {

constexpr double kPictureWidth = 760, kHeight = 386;
constexpr Frame kFrame = {80, 50, 640, 260};

/// Returns the points of a step curve, where each value lasts until the next.
std::vector<Point> steps(const std::vector<std::int64_t>& curve, double unit) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double value = static_cast<double>(curve[i]) / unit;
    points.push_back({static_cast<double>(i), value});
    points.push_back({static_cast<double>(i + 1), value});
  }
  return points;
}

/// Writes the names of phases below the frame, each at the middle of its phase, in rows so that
/// they do not overlap. A name may be longer than its phase.
class PhaseNames {
 public:
  explicit PhaseNames(Drawing& drawing) : drawing_(drawing) {}

  /// `middle` is in pixels. The phases must come in order.
  void write(double middle, const std::string& name) {
    constexpr double kGap = 6, kRowHeight = 13;
    const double half = Drawing::small_width(name) / 2, right = kFrame.left + kFrame.width;
    middle = std::clamp(middle, kFrame.left + half, std::max(right - half, kFrame.left + half));
    const auto row = std::ranges::find_if(ends_, [&](double end) { return end < middle - half; });
    if (row == ends_.end()) return;
    *row = middle + half + kGap;
    drawing_.text({middle, kFrame.top + kFrame.height + 15 +
                               kRowHeight * static_cast<double>(row - ends_.begin())},
                  name, Align::kMiddle, "small");
  }

 private:
  Drawing& drawing_;
  std::array<double, 3> ends_{};  // where the last name of each row ends
};

/// Draws the phases as bands in alternating shades, with their names.
void draw_phases(Drawing& drawing, const MemoryPlan& plan) {
  const double per_point = kFrame.width / static_cast<double>(plan.curve.size());
  PhaseNames names(drawing);
  for (std::size_t i = 0; i < plan.phases.size(); ++i) {
    const std::size_t begin = std::min(plan.phases[i].point, plan.curve.size());
    const std::size_t end = i + 1 < plan.phases.size()
                                ? std::min(plan.phases[i + 1].point, plan.curve.size())
                                : plan.curve.size();
    if (begin >= end) continue;
    const double left = kFrame.left + static_cast<double>(begin) * per_point;
    const double width = static_cast<double>(end - begin) * per_point;
    drawing.rectangle({left, kFrame.top}, width, kFrame.height, "heat", i % 2 == 0 ? 0.04 : 0.12,
                      plan.phases[i].phase);
    names.write(left + width / 2, plan.phases[i].phase);
  }
}

}  // namespace

ByteUnit byte_unit_for(double most) {
  if (most >= 1 << 30) return {"GiB", 1 << 30};
  if (most >= 1 << 20) return {"MiB", 1 << 20};
  return {"KiB", 1 << 10};
}

Drawing draw_plan(const MemoryPlan& plan, const std::string& name) {
  assert(!plan.curve.empty());
  const std::int64_t most = *std::ranges::max_element(plan.curve);
  std::string description = "live bytes over a step of " + plan.node + ", at most " +
                            size_text(most) + " in " + plan.peak_phase + "; " +
                            size_text(plan.needed) + " are needed";
  if (plan.budget) description += " of " + size_text(*plan.budget);
  Drawing drawing(kPictureWidth, kHeight, "Memory plan of " + name, description);
  draw_phases(drawing, plan);
  // A budget far above the curve would flatten the curve, so it is shown in the text instead.
  const bool shows_budget = plan.budget && *plan.budget <= 4 * std::max<std::int64_t>(most, 1);
  const std::int64_t top = shows_budget ? std::max(most, *plan.budget) : most;
  const ByteUnit unit = byte_unit_for(static_cast<double>(top));
  const double points = static_cast<double>(plan.curve.size());
  Plot plot(drawing, kFrame, {"", {.low = 0, .high = points, .values = {}, .labels = {}}},
            {unit.name, nice_ticks(0, std::max(1e-9, static_cast<double>(top) / unit.bytes), 8)},
            plan.node + ": live " + size_text(most) + ", needs " + size_text(plan.needed));
  plot.line(steps(plan.curve, unit.bytes), 1, Stroke::kPlain);
  std::vector<LegendEntry> lines = {{"live bytes", 1}};
  if (shows_budget) {
    const double budget = static_cast<double>(*plan.budget) / unit.bytes;
    plot.dashed({0, budget}, {points, budget});
    lines.push_back({"budget, " + size_text(*plan.budget), 1, true});
  }
  drawing.text({kFrame.left + kFrame.width / 2, kHeight - 22}, "a step, operation by operation",
               Align::kMiddle, "text");
  draw_legend(drawing, {kFrame.left + kFrame.width - 140, kHeight - 26}, lines);
  drawing.footer(shortened(name, 60));
  return drawing;
}

}  // namespace runner
