#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace stages {

/// The rule by which transformers initializes a tower's weights.
enum class InitializerRule {
  kClip,  ///< CLIPPreTrainedModel
  kVit,   ///< ViTPreTrainedModel and Dinov2PreTrainedModel: every weight, the class token and the
          ///< positions are drawn from a normal distribution with standard deviation `range`; layer
          ///< scales are 1 and register tokens 0
};

/// The options that determine the spread of a tower's initial weights.
struct InitializerOptions {
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  double range = 0;   ///< HF's initializer_range
  double factor = 0;  ///< HF's initializer_factor
  InitializerRule rule = InitializerRule::kClip;
};

/// The initial weights of a head that a model adds to a pretrained backbone.
enum class HeadStart {
  kUniform,   ///< torch's rule for nn.Linear: uniform within 1/sqrt(inputs)
  kZero,      ///< all zero (Dosovitskiy et al. 2020, arXiv:2010.11929)
  kZeroShot,  ///< the class captions' embeddings (text_head.h)
};

/// How a weight is drawn: all zero, all one, normal around 0, or uniform around 0.
struct Distribution {
  enum class Kind { kZero, kOne, kNormal, kUniform };
  Kind kind = Kind::kZero;
  double scale = 0;  ///< standard deviation of kNormal, bound of kUniform
};

/// Returns the distribution of the weight `name` of an ImageClassifier or a ClipNetwork, such as
/// "vision_model.embeddings.class_embedding". A tower and its projection use options.rule
/// (transformers 5, modeling_clip.py and modeling_vit.py); a head uses torch's rule for nn.Linear,
/// uniform within 1/sqrt(head_inputs).
Distribution initial_distribution(std::string_view name, const InitializerOptions& options,
                                  std::int64_t head_inputs);

/// Returns a CPU generator for one weight, seeded from `seed` and the weight's name.
at::Generator weight_generator(std::string_view name, std::uint64_t seed);

/// Draws the weight `name` of a network in place, as a function of the seed, the name and the
/// shape. Autograd does not record this. A weight without memory is skipped.
void draw_weight(const at::Tensor& weight, const Distribution& distribution, std::string_view name,
                 std::uint64_t seed);

/// Draws every weight of a network on the CPU from its initial_distribution(), in place and in any
/// memory layout. A half-precision weight is rounded from float32 values. Each weight is a function
/// of (seed, its name, its shape): it does not depend on other weights, and no global generator is
/// used. Weights that are not `wanted` keep their values, and those without memory are skipped.
void initialize(torch::nn::Module& network, const InitializerOptions& options, std::uint64_t seed,
                const std::function<bool(std::string_view name)>& wanted = {});

}  // namespace stages
