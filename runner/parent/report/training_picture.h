#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/record/run_folder.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/svg/drawing.h"
#include "runner/shared/disk/write_error.h"

namespace runner {

/// Draws training_curves.svg: the training and validation loss by epoch on the left, the validation
/// accuracy in % on the right. If there are no accuracies, draws only the loss. `name` is the run's
/// name. Skips values that are not finite. There must be at least one epoch.
Drawing draw_training(const TrainingHistory& history, const std::string& name);

/// Draws a color matrix that shows how well the network of each class pair
/// distinguishes its two classes. `name` is the run's name. There must be at least one pair;
/// several networks for one pair are averaged.
Drawing draw_pairs(const RecordedEvaluation& evaluation, const std::string& name);

/// The folder to which drawings are written; created if it does not exist. A drawing replaces any
/// older drawing with the same name.
class DrawingFolder {
 public:
  /// Throws WriteError.
  explicit DrawingFolder(std::filesystem::path folder);
  void write(const std::string& name, std::string_view svg);
  /// Returns the paths of all written files, in order.
  const std::vector<std::string>& written() const { return written_; }

 private:
  const std::filesystem::path folder_;
  std::vector<std::string> written_;
};

}  // namespace runner
