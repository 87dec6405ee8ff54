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
/// accuracy of validation in %; without one, the loss alone. `name` is the run's. Numbers that are
/// not finite are left out. At least one epoch.
std::string draw_training(const TrainingHistory& history, const std::string& name);

/// How well the network of each pair of classes tells these two apart, as a matrix of colours: an
/// SVG document. `name` is the run's. There is at least one pair; of several networks for one pair
/// it is their mean.
std::string draw_pairs(const RecordedEvaluation& evaluation, const std::string& name);

/// The folder that pictures are written to; made where it is not there. A picture takes the place
/// of an older one of its name.
class PictureFolder {
 public:
  /// Throws WriteError.
  explicit PictureFolder(std::filesystem::path folder);
  void write(const std::string& name, std::string_view svg);
  /// The paths of all that was written, in order.
  const std::vector<std::string>& written() const { return written_; }

 private:
  const std::filesystem::path folder_;
  std::vector<std::string> written_;
};

}  // namespace runner
