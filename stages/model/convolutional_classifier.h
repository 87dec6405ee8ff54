#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/model/bottleneck_network.h"
#include "stages/model/convolution_layers.h"
#include "stages/model/convolutional_networks.h"
#include "stages/model/layers.h"
#include "stages/random/dropout.h"
#include "stages/weights/saved_weights.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// The `head` of schemas/model/se_resnext.
struct ClassifierHeadOptions {
  std::vector<std::int64_t> widths;  ///< of the hidden layers
  double dropout = 0;                ///< before the first layer; half of it before the others
};

/// For each width dropout, a linear layer, ReLU and BatchNorm; then dropout and a linear layer.
/// Children are numbered as in the published torch::nn::Sequential, which counts ReLU too: 0
/// dropout, 1 linear, 3 norm, 4 dropout …
class ClassifierHead : public PrecisionModule {
 public:
  ClassifierHead(const ClassifierHeadOptions& head, std::int64_t features, std::int64_t outputs,
                 const at::TensorOptions& options);
  /// (n, features) to (n, outputs).
  at::Tensor forward(const at::Tensor& features) const;
  /// Draws the weights by torch's rule for nn.Linear, as a function of `seed` and their names below
  /// `path`.
  void initialize(const std::string& path, std::uint64_t seed);

 private:
  struct Layer {
    std::shared_ptr<Dropout> dropout;
    std::shared_ptr<Linear> linear;
    std::shared_ptr<BatchNorm> norm;  // null: the last layer
  };
  std::vector<Layer> layers_;
};

/// One of timm's convolutional networks, without its classifier.
using ConvolutionalBackbone =
    std::variant<BottleneckOptions, DenseOptions, InvertedResidualOptions>;

/// Those in the schema of model.cnn, by timm's names.
std::array<std::pair<std::string_view, ConvolutionalBackbone>, 5> convolutional_architectures();

/// The network, uninitialized, in float32.
std::shared_ptr<FeatureMaps> make_backbone(const ConvolutionalBackbone& backbone,
                                           const at::TensorOptions& options);

/// The same with as few channels as possible.
ConvolutionalBackbone shrunken_backbone(const ConvolutionalBackbone& backbone);

/// Draws the weights of such a network by timm's rules; each weight is a function of `seed` and its
/// name alone.
void initialize_backbone(const ConvolutionalBackbone& backbone, FeatureMaps& network,
                         std::uint64_t seed);

/// The options that model.se_resnext and model.cnn share.
struct ConvolutionalClassifierConfig {
  std::string pointer;  ///< place of the model's options in the recipe, "/model"
  std::string name;     ///< of the backbone, in messages: "SE-ResNeXt", "densenet121"
  ConvolutionalBackbone backbone;
  std::optional<std::string> weights;        ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;  ///< of the weights, if the file has several
  std::vector<std::string>
      frozen;  ///< paths of modules of the backbone whose weights are not trained
  std::optional<std::int64_t> num_classes;  ///< nullopt: the number of the data's classes
  ClassifierHeadOptions head;
};

/// A backbone and a head on the mean of its last map. Children: backbone and classifier.
class ConvolutionalClassifierNetwork : public PrecisionModule {
 public:
  /// `height` and `width` of the images; the backbone must support them.
  ConvolutionalClassifierNetwork(const ConvolutionalClassifierConfig& config, std::int64_t outputs,
                                 const at::TensorOptions& options);
  /// From pixels (n, 3, h, w): {"logits": (n, outputs), "features": (n, channels)}.
  NamedTensors forward(const at::Tensor& pixels) const;
  /// The mean over each map, (n, channels).
  at::Tensor features(const at::Tensor& pixels) const;

  FeatureMaps& backbone() { return *backbone_; }
  ClassifierHead& head() { return *head_; }

  std::vector<std::string> notes;  ///< where its weights come from

 private:
  std::shared_ptr<FeatureMaps> backbone_;
  std::shared_ptr<ClassifierHead> head_;
};

/// build() makes a ConvolutionalClassifierNetwork.
class ConvolutionalClassifier : public Model, public ShrinkableModel, public NamedModel {
 public:
  /// `saved` holds the shapes of the weights and their digest: each build() reads the values again,
  /// so none are kept next to a network. null: they are random.
  ConvolutionalClassifier(ConvolutionalClassifierConfig config,
                          std::shared_ptr<const SavedWeights> saved)
      : config_(std::move(config)), saved_(std::move(saved)) {}

  /// Throws if the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image".
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return true; }
  bool mixes_over_ranks() const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::string architecture() const override { return config_.name; }
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

  const ConvolutionalClassifierConfig& config() const { return config_; }
  /// Throws as build() does if the saved weights do not fit the backbone; needs only their shapes.
  void check_weights() const;

 private:
  /// Uninitialized.
  std::shared_ptr<ConvolutionalClassifierNetwork> make(const DatasetDescription& data,
                                                       at::Device device) const;

  const ConvolutionalClassifierConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
};

/// Whether the backbone has a module at that path: "layer1", "features.denseblock1".
bool has_module(const FeatureMaps& backbone, const std::string& path);

/// Makes the stage of such a model. Reads the options that both kinds have, except `frozen`, into
/// `config`, whose backbone has been read. The result holds all errors of these options.
runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config);

}  // namespace stages
