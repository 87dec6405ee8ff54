#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/convolutional_networks.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// How a ResNet begins and ends.
enum class ResNetStem {
  kImageNet,  ///< 7 x 7 convolution and max-pooling; the last map is unchanged
  kFeti,      ///< 5 x 5 convolution without pooling; the last map is pooled to 7 x 7
};

/// The options of schemas/model/backbone/resnet that determine what the network computes.
struct ResNetOptions {
  std::int64_t depth = 18;  ///< 12, 18 or 34
  ResNetStem stem = ResNetStem::kImageNet;
  BatchNormStatistics statistics = BatchNormStatistics::kOfBatch;
  std::int64_t width = 64;       ///< channels in the first stage; doubled in each later stage
  std::int64_t pooled_size = 7;  ///< height and width of kFeti's last map
  double drop_path = 0;          ///< for the last block; rises in equal steps from 0 at the first
};

/// A residual block: two 3 x 3 convolutions and a shortcut. In training, the convolutions are
/// skipped with probability `drop_path` for each sample. Children, with torchvision's names: conv1,
/// bn1, conv2, bn2 and, if the shape changes, downsample.0 and downsample.1; with a `drop_path`
/// above 0 also drop_path.
class BasicBlock : public RecomputableModule {
 public:
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride, BatchNormStatistics statistics,
             double drop_path, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  std::shared_ptr<Convolution> conv1_, conv2_, shortcut_;  // if shortcut_ is null, the input itself
  std::shared_ptr<BatchNorm> bn1_, bn2_, shortcut_norm_;
  std::shared_ptr<Dropout> drop_path_;  // null: never skipped
};

/// A residual network (He et al., 2015) up to its last feature map. Children, with torchvision's
/// names: conv1, bn1, layer1.0 … layer4.N.
class ResNet : public FeatureMaps {
 public:
  ResNet(const ResNetOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;
  const ResNetOptions& options() const { return options_; }

 private:
  const ResNetOptions options_;
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<BasicBlock>> blocks_;
};

/// A report on every tensor in a weights file and every weight of a ResNet.
struct ResNetWeightsReport {
  std::string prefix;      ///< prefix of torchvision's names in the file: "module.resnet."; usually
                           ///< empty
  std::int64_t taken = 0;  ///< weights and buffers of the network that have the file's values
  std::vector<std::string> missing;      ///< weights and buffers that the file lacks
  std::vector<std::string> wrong_shape;  ///< "conv1.weight [64, 3, 7, 7] for [64, 3, 5, 5]"
  std::vector<std::string> left_out;     ///< tensors of a classifier's head: fc.weight, fc.bias
  std::vector<std::string> unused;       ///< all other tensors; they match none of the network's

  bool fits() const { return missing.empty() && wrong_shape.empty(); }
  /// Returns "110 tensors of ResNet-18; left out: fc.bias and fc.weight; unmatched:
  /// layer2.1.bn1.bias and 19 more".
  std::string text(std::int64_t depth) const;
  /// Returns "40 tensors are missing from layer1.2, layer2.2 and layer2.3"; empty if everything
  /// fits.
  std::string misfits() const;
};

/// Loads the tensors of a file into a ResNet by torchvision's names, with or without a common
/// prefix from a program's own modules. The tensors arrive piece by piece, as in PretrainedPlaces
/// (stages/model/pretrained.h). num_batches_tracked of a BatchNorm may be missing, as in files from
/// before 2018; it is then 0, and nothing depends on it.
class ResNetPlaces {
 public:
  /// Uses only the names and shapes of `saved`. `network` must outlive this object; it may be on
  /// the Meta device if only the report is needed.
  ResNetPlaces(ResNet& network, const NamedTensors& saved);

  const ResNetWeightsReport& report() const { return report_; }
  /// Returns a sink that writes the tensors it receives to the network. The report must satisfy
  /// fits(), and this object must outlive the sink.
  WeightSink sink();

 private:
  ResNetWeightsReport report_;
  std::map<std::string, at::Tensor> places_;  // the network's tensors, by their names in the file
};

}  // namespace stages
