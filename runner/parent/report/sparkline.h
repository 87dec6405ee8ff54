#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runner/shared/stage/memory_plan.h"

namespace runner {

/// What a terminal, or whoever reads instead, can show.
struct TextStyle {
  std::size_t width = 80;   ///< columns
  bool has_blocks = false;  ///< it shows Unicode's blocks; else plain ASCII
};

/// That of standard output: blocks on a terminal whose locale is UTF-8, 80 columns where it is no terminal.
TextStyle standard_output_style();

/// `values` as one line of at most `width` columns, each as high as the largest of its share of them, by the largest
/// of all. Where something is, no column is empty. Empty for no values.
std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style);

/// The names of phases where they begin under the sparkline of `points` values; those that last longest first, and
/// one that then finds no room is left out.
std::string phase_line(std::span<const PhaseMark> phases, std::size_t points, const TextStyle& style);

}  // namespace runner
