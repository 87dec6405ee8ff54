#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A ROC curve of an evaluation: the share of negatives, and of positives, at or above each
/// threshold.
struct RecordedCurve {
  std::string name;  ///< of the class; empty for a mean
  double area = 0;
  std::vector<std::pair<double, double>> points;  ///< rates of false and true positives, both from
                                                  ///< 0 to 1
};

/// A calibration bin: the predictions whose probability lies in (low, high].
struct RecordedBin {
  double low = 0, high = 0;
  std::int64_t count = 0;
  double confidence = 0, accuracy = 0;  ///< their mean probability; the share that is correct
};

/// The validated content of the files of an evaluation with classes: shares lie between 0 and 1,
/// the matrix is square.
struct RecordedEvaluation {
  struct Class {
    std::string name;
    double precision = 0, recall = 0;
    std::int64_t support = 0;
  };
  std::string node, title;                 ///< its id; its display name, "evaluate[rate=0.001]"
  double accuracy = 0, low = 0, high = 0;  ///< of all samples, with its 95 % interval
  double mean_per_class = 0, loss = 0;
  std::int64_t samples = 0;
  bool is_smoke = false;
  std::vector<double> episodes;  ///< for a few-shot model, the accuracy of each episode; the
                                 ///< interval is then that of their mean
  std::string drawn;             ///< identifies the episodes; equal for the same ones
  std::vector<Class> classes;
  std::vector<std::vector<std::int64_t>>
      confusion;  ///< rows: true classes; empty if there are too many

  /// For networks that each tell two classes apart: how well one does on the samples of its two
  /// classes.
  struct Pair {
    std::size_t first = 0, second = 0;  ///< numbers of classes
    std::int64_t samples = 0;
    std::optional<double> accuracy;
  };
  std::vector<Pair> pairs;

  /// For an ensemble of several models' networks: how well the networks of one model do alone.
  struct BaseModel {
    std::string name;
    std::optional<double> accuracy,
        kappa;  ///< absent if they abstain from every sample; kappa is quadratic, from -1 to 1
  };
  std::vector<BaseModel> models;

  bool has_curves = false;  ///< curves.json exists; the rest comes from it
  std::vector<RecordedCurve> class_curves;
  std::optional<RecordedCurve> macro, micro;
  std::optional<double> calibration_error;
  std::vector<RecordedBin> bins;
};

/// The metrics of an evaluation without classes, such as a retrieval.
struct RecordedMeasures {
  std::string node, title;  ///< its id; its display name
  bool is_smoke = false;
  std::vector<std::pair<std::string, double>> values =
      {};  ///< "evaluate/…", in the order in which they were recorded
};

/// Reads metrics.json and, if it exists, curves.json in nodes/<node>/ of a run's `folder`.
/// kDamagedRecord, with the file and what is wrong in it.
Result<RecordedEvaluation> read_evaluation(const std::filesystem::path& folder,
                                           const std::string& node);

/// Reads an evaluation whose metrics.json is valid and has no classes: everything except its
/// values, which metrics.jsonl has. nullopt if read_evaluation() must read it.
std::optional<RecordedMeasures> read_measures(const std::filesystem::path& folder,
                                              const std::string& node);

/// The nodes of the run in `folder` that have been evaluated, sorted.
std::vector<std::string> evaluated_nodes(const std::filesystem::path& folder);

/// confusion_matrix.svg: rows are true classes, columns predicted ones, a cell's colour the share
/// of its row. Shows class names for up to 20 classes, counts for up to 12. `evaluation` has a
/// matrix.
std::string draw_confusion(const RecordedEvaluation& evaluation, const std::string& name);

/// roc.svg: mean curves over classes and over all pairs, and those of single classes if they are
/// recorded.
std::string draw_roc(const RecordedEvaluation& evaluation, const std::string& name);

/// calibration.svg: how often predictions of each probability are correct, above how many there
/// are. `evaluation` has bins.
std::string draw_calibration(const RecordedEvaluation& evaluation, const std::string& name);

}  // namespace runner
