#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/model/convolutional_networks.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// What became of every tensor in a file of weights, and of every weight of a backbone.
struct TimmWeightsReport {
  std::string prefix;      ///< before timm's names in the file: "backbone."; usually empty
  std::int64_t taken = 0;  ///< weights and buffers of the backbone that have the file's values
  std::vector<std::string> missing;      ///< names of those that the file lacks
  std::vector<std::string> wrong_shape;  ///< "conv1.weight [64, 3, 7, 7] for [64, 3, 5, 5]"
  std::vector<std::string> left_out;     ///< tensors of a classifier: fc.weight, fc.bias
  std::vector<std::string> unused;       ///< all other tensors without a place in the backbone
  bool has_cadene_names = false;         ///< those of another library for the same network

  bool fits() const { return missing.empty() && wrong_shape.empty() && unused.empty(); }
  /// "382 tensors; left out: fc.bias, fc.weight".
  std::string text() const;
  /// "missing: layer1.0.se.fc1.bias; unknown: layer1.0.extra"; empty if all fits.
  std::string misfits() const;
};

/// Loads the tensors of a file into a backbone by timm's names: as timm saves them, or all below a
/// prefix, as in a checkpoint of a backbone with a head. The tensors arrive piece by piece, as in
/// PretrainedPlaces (stages/model/pretrained.h). num_batches_tracked of a BatchNorm may be missing;
/// it is 0 then, and nothing depends on it.
class TimmWeightPlaces {
 public:
  /// `saved` holds the tensors, of which only names and shapes are used. The backbone may be on the
  /// Meta device, where only the report is useful; it must outlive this.
  TimmWeightPlaces(FeatureMaps& backbone, const NamedTensors& saved);

  const TimmWeightsReport& report() const { return report_; }
  /// Receives the tensors and writes them to the backbone, if the report fits(). It refers to this
  /// object.
  WeightSink sink();

 private:
  TimmWeightsReport report_;
  std::map<std::string, at::Tensor> places_;  // the backbone's tensors by the file's names
};

}  // namespace stages
