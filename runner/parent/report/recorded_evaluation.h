#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A ROC curve of an evaluation: for each threshold, the fractions of negatives and of positives
/// with scores at or above it.
struct RecordedCurve {
  std::string name;  ///< name of the class; empty for a mean over classes
  double area = 0;
  /// Rates of false and true positives, both from 0 to 1.
  std::vector<std::pair<double, double>> points;
};

/// A calibration bin: the predictions with a probability in (low, high].
struct RecordedBin {
  double low = 0, high = 0;
  std::int64_t count = 0;
  double confidence = 0, accuracy = 0;  ///< mean probability; fraction of correct predictions
};

/// The validated contents of the files of an evaluation with classes: fractions are between 0 and
/// 1, and the matrix is square.
struct RecordedEvaluation {
  struct Class {
    std::string name;
    double precision = 0, recall = 0;
    std::int64_t support = 0;
  };
  std::string node, title;                 ///< node id; display name, "evaluate[rate=0.001]"
  double accuracy = 0, low = 0, high = 0;  ///< over all samples, with its 95% confidence interval
  double mean_per_class = 0, loss = 0;
  std::int64_t samples = 0;
  bool is_smoke = false;
  /// For a few-shot model, the accuracy of each episode; the interval is then for their mean.
  std::vector<double> episodes;
  std::string drawn;  ///< identifies the episodes; the same for the same episodes
  std::vector<Class> classes;
  /// Rows are true classes; empty if there are too many classes.
  std::vector<std::vector<std::int64_t>> confusion;

  /// For networks that each distinguish two classes: how well one network does on the samples from
  /// its class pair.
  struct Pair {
    std::size_t first = 0, second = 0;  ///< class numbers
    std::int64_t samples = 0;
    std::optional<double> accuracy;
  };
  std::vector<Pair> pairs;

  /// For an ensemble with several base models: how well the networks of one model do on their own.
  struct BaseModel {
    std::string name;
    /// nullopt if the networks abstain from every sample; kappa is quadratic, from -1 to 1.
    std::optional<double> accuracy, kappa;
  };
  std::vector<BaseModel> models;

  /// Samples with labels that are suspected to be wrong.
  struct Suspects {
    struct One {
      std::string name, label, suggested;
    };
    std::int64_t count = 0;
    std::int64_t trained = 0;  ///< number of samples that the network was trained on
    std::vector<One> first;    ///< the clearest
  };
  std::optional<Suspects> suspects;

  bool has_curves = false;  ///< curves.json exists; it contains the following members
  std::vector<RecordedCurve> class_curves;
  std::optional<RecordedCurve> macro, micro;
  std::optional<double> calibration_error;
  std::vector<RecordedBin> bins;
};

/// The metrics of an evaluation without classes, such as a retrieval.
struct RecordedMeasures {
  std::string node, title;  ///< node id; display name
  bool is_smoke = false;
  /// "evaluate/…", in the order in which they were recorded.
  std::vector<std::pair<std::string, double>> values = {};
};

/// True for an evaluation of samples with any number of labels.
bool has_label_sets(const RecordedMeasures& measures);

/// Reads metrics.json and, if it exists, curves.json in nodes/<node>/ of a run's `folder`. On
/// kDamagedRecord, the message contains the file's name and says what is wrong with it.
Result<RecordedEvaluation> read_evaluation(const std::filesystem::path& folder,
                                           const std::string& node);

/// Reads an evaluation that has a valid metrics.json without classes. Leaves `values` empty, since
/// they are in metrics.jsonl. nullopt if the evaluation must be read by read_evaluation().
std::optional<RecordedMeasures> read_measures(const std::filesystem::path& folder,
                                              const std::string& node);

/// Returns the evaluated nodes of the run in `folder`, sorted.
std::vector<std::string> evaluated_nodes(const std::filesystem::path& folder);

/// Draws confusion_matrix.svg: rows are true classes, columns are predicted classes, and a cell's
/// color is its fraction of the row. Shows class names for up to 20 classes and counts for up to
/// 12. `evaluation` must have a matrix.
Drawing draw_confusion(const RecordedEvaluation& evaluation, const std::string& name);

/// Draws roc.svg: the mean curves over the classes and over all sample-class pairs, and the curves
/// for individual classes if they are recorded.
Drawing draw_roc(const RecordedEvaluation& evaluation, const std::string& name);

/// Draws calibration.svg: how often predictions with each probability are correct, above the number
/// of such predictions. `evaluation` must have bins.
Drawing draw_calibration(const RecordedEvaluation& evaluation, const std::string& name);

}  // namespace runner
