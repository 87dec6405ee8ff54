#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The predictions.csv of an evaluation: one row per sample.
struct PredictionTable {
  /// A predicted target, with the positions of its columns.
  struct Target {
    std::string name;  ///< empty if it is the only target
    std::size_t truth = 0, predicted = 0;
  };
  /// One of several labels that a sample may have, with the position of its probability.
  struct Label {
    std::string name;
    std::size_t probability = 0;
  };

  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< each has as many fields as there are columns
  std::size_t name = 0;                        ///< position of the column "name"
  std::optional<std::size_t> group;  ///< the column with groups of samples that belong together

  bool has_classes = false;              ///< false: the next members are not set
  std::size_t label = 0, predicted = 0;  ///< positions of these columns
  std::vector<std::size_t> best;         ///< the columns top_1, top_2, …
  std::vector<std::string> grades;       ///< grades in order, for an evaluation of grades
  /// The columns with the probabilities of `grades`; empty if there are none.
  std::vector<std::size_t> probabilities;
  /// The column with the probability of the sample's label, if there is one.
  std::optional<std::size_t> label_probability;
  /// Set for a multi-label evaluation, in which case `label` and `predicted` hold names separated
  /// by "|", and all probabilities are finite.
  std::vector<Label> labels;

  std::vector<Target> targets;  ///< targets of an evaluation of predicted values; all of their
                                ///< fields are finite
};

/// Reads nodes/<node>/predictions.csv of a run's `folder`. kNoResults if there is no such file,
/// kDamagedRecord if it has another format.
Result<PredictionTable> read_prediction_table(const std::filesystem::path& folder,
                                              const std::string& node);

/// Returns the number in a field; NaN if it does not contain a number.
double number_of_field(const std::string& field);

}  // namespace runner
