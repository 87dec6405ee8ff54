#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"

namespace runner {

/// What the terminal, or another reader, can show.
struct TextStyle {
  std::size_t width = 80;   ///< columns
  bool has_blocks = false;  ///< it shows Unicode block characters; else plain ASCII
};

/// The style of standard output: blocks on a terminal whose locale is UTF-8, 80 columns if it is
/// not a terminal.
TextStyle standard_output_style();

/// `values` as one line of at most `width` columns. Each column shows the largest of its values,
/// relative to the largest of all. A column with a value above 0 is never blank. Empty for no
/// values.
std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style);

/// The names of phases, each where it begins under the sparkline of `points` values. The longest
/// phases are placed first; a name that then has no room is left out.
std::string phase_line(std::span<const PhaseMark> phases, std::size_t points,
                       const TextStyle& style);

/// A plan as text: what a node needs and its budget, when, for what, the effect of the recipe's
/// options and what else could be done. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

/// A certificate as text: the relative error of each parameter's gradient, other differences, and a
/// line that begins with PASS or FAIL.
std::string certificate_text(const Certificate& certificate);

/// memory_plan.svg: the live bytes over a step as a line, the phases below it, and the budget as a
/// dashed line. `name` is the recipe's. The curve has at least one point.
std::string draw_plan(const MemoryPlan& plan, const std::string& name);

}  // namespace runner
