#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/model/convolutional_networks.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// What became of every tensor that a file of weights held, and of every weight that a backbone
/// has.
struct TimmWeightsReport {
  std::string prefix;      ///< before timm's names in the file: "backbone."; mostly empty
  std::int64_t taken = 0;  ///< weights and buffers of the backbone that have the file's values
  std::vector<std::string> missing;      ///< names of those that the file lacks
  std::vector<std::string> wrong_shape;  ///< "conv1.weight [64, 3, 7, 7] for [64, 3, 5, 5]"
  std::vector<std::string> left_out;     ///< tensors of a classifier: fc.weight, fc.bias
  std::vector<std::string> unused;       ///< all other tensors that the backbone has no place for
  bool has_cadene_names = false;         ///< those of another library, of the same network

  bool fits() const { return missing.empty() && wrong_shape.empty() && unused.empty(); }
  /// "382 tensors; left out: fc.bias, fc.weight".
  std::string text() const;
  /// "missing: layer1.0.se.fc1.bias; unknown: layer1.0.extra"; empty where all fits.
  std::string misfits() const;
};

/// How the tensors of a file become a backbone, by timm's names: as timm saves them, or all below a
/// prefix, as in a checkpoint of a backbone with a head. The tensors come piece by piece, as in
/// PretrainedPlaces (stages/model/pretrained.h). How many batches a BatchNorm has seen may be
/// missing; it is 0 then, and nothing depends on it.
class TimmWeightPlaces {
 public:
  /// `saved` are the tensors, of which only names and shapes are looked at. The backbone may be on
  /// the Meta device, then only the report is of use; it must outlive this.
  TimmWeightPlaces(FeatureMaps& backbone, const NamedTensors& saved);

  const TimmWeightsReport& report() const { return report_; }
  /// Gives the backbone the numbers that come, if the report fits(). It refers to this object.
  WeightSink sink();

 private:
  TimmWeightsReport report_;
  std::map<std::string, at::Tensor> places_;  // the backbone's own, by the file's names
};

}  // namespace stages
