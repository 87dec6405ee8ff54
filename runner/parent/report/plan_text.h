#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// Returns `values` as one line of at most `width` columns. Each column shows the largest of its
/// values, relative to the overall maximum. A column with a value above 0 is never blank. Empty if
/// there are no values.
std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style);

/// Returns a line with the names of phases, each placed where its phase begins in the sparkline of
/// `points` values above the line. The longest phases are placed first; names that do not fit are
/// left out.
std::string phase_line(std::span<const PhaseMark> phases, std::size_t points,
                       const TextStyle& style);

/// Returns a plan as text: the needed bytes and the budget, when the peak occurs, what uses the
/// memory, the effect of the recipe's options, and alternatives. Every line ends with a newline.
std::string plan_text(const MemoryPlan& plan, const TextStyle& style);

/// Returns a certificate as text: the relative error of each parameter's gradient, other
/// differences, and a final line that begins with PASS or FAIL.
std::string certificate_text(const Certificate& certificate, const TextStyle& style = {});

/// A unit for the bytes on an axis.
struct ByteUnit {
  const char* name;
  double bytes;
};
/// Returns a unit that gives convenient numbers for up to `most` bytes.
ByteUnit byte_unit_for(double most);

/// Draws memory_plan.svg: the live bytes over a step as a line, with the phases as bands and the
/// budget as a dashed line. `name` is the recipe's name. The curve must have at least one point.
Drawing draw_plan(const MemoryPlan& plan, const std::string& name);

}  // namespace runner
