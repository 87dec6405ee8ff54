#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/record/run_folder.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/shared/disk/write_error.h"

namespace runner {

/// training_curves.svg: on the left the loss of training and validation by epoch, on the right the
/// accuracy of validation in %; without accuracies, the loss alone. `name` is the run's. Numbers
/// that are not finite are left out. There must be at least one epoch.
std::string draw_training(const TrainingHistory& history, const std::string& name);

/// An SVG document: a matrix of colours that shows how well the network of each pair of classes
/// tells the two apart. `name` is the run's. There is at least one pair; several networks for one
/// pair show their mean.
std::string draw_pairs(const RecordedEvaluation& evaluation, const std::string& name);

/// The folder that drawings are written to; created if it does not exist. A drawing replaces an
/// older one of the same name.
class DrawingFolder {
 public:
  /// Throws WriteError.
  explicit DrawingFolder(std::filesystem::path folder);
  void write(const std::string& name, std::string_view svg);
  /// The paths of all written files, in order.
  const std::vector<std::string>& written() const { return written_; }

 private:
  const std::filesystem::path folder_;
  std::vector<std::string> written_;
};

}  // namespace runner
