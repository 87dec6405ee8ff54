#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/model/convolutional_networks.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// A report on every tensor in a weights file and every weight of a backbone.
struct TimmWeightsReport {
  std::string prefix;      ///< prefix of timm's names in the file: "backbone."; usually empty
  std::int64_t taken = 0;  ///< weights and buffers of the backbone that have the file's values
  std::vector<std::string> missing;      ///< weights and buffers that the file lacks
  std::vector<std::string> wrong_shape;  ///< "conv1.weight [64, 3, 7, 7] for [64, 3, 5, 5]"
  std::vector<std::string> left_out;     ///< tensors of a classifier: fc.weight, fc.bias
  std::vector<std::string> unused;       ///< all other tensors; they match none of the backbone's
  bool has_cadene_names = false;         ///< the file uses the names of another library, Cadene's

  bool fits() const { return missing.empty() && wrong_shape.empty() && unused.empty(); }
  /// Returns "382 tensors; left out: fc.bias and fc.weight".
  std::string text() const;
  /// Returns "1 missing: layer1.0.se.fc1.bias; 1 unknown: layer1.0.extra"; empty if everything
  /// fits.
  std::string misfits() const;
};

/// Loads the tensors of a file into a backbone by timm's names, with or without a common prefix, as
/// in a checkpoint of a backbone with a head. The tensors arrive piece by piece, as in
/// PretrainedPlaces (stages/model/pretrained.h). num_batches_tracked of a BatchNorm may be missing;
/// it is then 0, and nothing depends on it.
class TimmWeightPlaces {
 public:
  /// Uses only the names and shapes of `saved`. `backbone` must outlive this object; it may be on
  /// the Meta device if only the report is needed.
  TimmWeightPlaces(FeatureMaps& backbone, const NamedTensors& saved);

  const TimmWeightsReport& report() const { return report_; }
  /// Returns a sink that writes the tensors it receives to the backbone. The report must satisfy
  /// fits(), and this object must outlive the sink.
  WeightSink sink();

 private:
  TimmWeightsReport report_;
  std::map<std::string, at::Tensor> places_;  // the backbone's tensors, by their names in the file
};

}  // namespace stages
