#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"

namespace runner {

/// What a terminal, or whoever reads instead, can show.
struct TextStyle {
  std::size_t width = 80;   ///< columns
  bool has_blocks = false;  ///< it shows Unicode's blocks; else plain ASCII
};

/// That of standard output: blocks on a terminal whose locale is UTF-8, 80 columns where it is no
/// terminal.
TextStyle standard_output_style();

/// `values` as one line of at most `width` columns, each as high as the largest of its share of
/// them, by the largest of all. Where something is, no column is empty. Empty for no values.
std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style);

/// The names of phases where they begin under the sparkline of `points` values; those that last
/// longest first, and one that then finds no room is left out.
std::string phase_line(std::span<const PhaseMark> phases, std::size_t points,
                       const TextStyle& style);

/// A plan for a person: what a node needs and of what budget, when, whose it is, what the recipe's
/// options do to it and what else could be done. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

/// A certificate for a person: the relative error of each parameter's gradient, what else came out
/// otherwise, and a line that begins with PASS or FAIL.
std::string certificate_text(const Certificate& certificate);

/// memory_plan.svg: the live bytes over a step as a line, the phases below it, and the budget as a
/// dashed line. `name` is the recipe's. The curve has at least one point.
std::string draw_plan(const MemoryPlan& plan, const std::string& name);

}  // namespace runner
