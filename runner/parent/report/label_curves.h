#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// How well a network detects one label, at every threshold.
struct LabelCurve {
  std::string label;
  std::int64_t support = 0;  ///< number of samples with the label
  double average_precision = 0;
  std::vector<Point> precision_recall;  ///< x: recall; y: precision
  std::optional<double> area;  ///< area under the ROC curve; nullopt if all samples have the label
  std::vector<Point> roc;      ///< x: false positive rate; y: true positive rate
};

/// The curves of a multi-label evaluation.
struct LabelCurves {
  std::int64_t labels = 0;         ///< number of labels in the test set
  std::vector<LabelCurve> curves;  ///< curves of the most frequent labels, in descending order of
                                   ///< frequency
};

/// Reads nodes/<node>/curves.json of a run's `folder`. Empty if there is no such file, or if the
/// evaluation is not a multi-label one; kDamagedRecord if it is malformed.
Result<LabelCurves> read_label_curves(const std::filesystem::path& folder, const std::string& node);

/// Draws label_curves.svg: precision against recall on the left and the ROC curve on the right, for
/// at most kMostDrawnLabels labels. There must be at least one curve.
Drawing draw_label_curves(const LabelCurves& curves, const std::string& name);
inline constexpr std::size_t kMostDrawnLabels = 8;  // equal to the number of colors

}  // namespace runner
