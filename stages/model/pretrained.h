#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/model/weight_names.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// How position embeddings are resized to another number of patches.
enum class PositionResize {
  kBicubic,           ///< without antialiasing, as transformers' interpolate_pos_encoding
  kBicubicAntialias,  ///< with antialiasing, as timm's resample_abs_pos_embed, which always
                      ///< computes in float32
};

/// Resizes `positions` (1 + n², width), the class token's first, to (tokens, width) for a grid of
/// another side; both `tokens` and the rows of `positions` are one more than a square.
/// Differentiable. The class token's embedding is not changed.
at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how);

/// The side of the square grid of `tokens` without the class token; 0 if it is not a square.
std::int64_t grid_side(std::int64_t tokens);

/// What became of every tensor in a file of weights, and of every weight of the network.
struct PretrainedReport {
  WeightLayout layout = WeightLayout::kClip;
  std::int64_t taken = 0;                ///< weights of the network that now have the file's values
  std::vector<std::string> missing;      ///< names, as in the file, of weights that it lacks
  std::vector<std::string> unexpected;   ///< tensors that no part of such a model has
  std::vector<std::string> wrong_shape;  ///< "vit.layernorm.weight [48] for [64]"
  std::vector<std::string>
      left_out;  ///< tensors of parts that this network lacks: a text tower, another head
  std::vector<std::string> random;  ///< weights that no file of this layout has: the head
  std::string wrapper;  ///< before the names in the file: "module.", "clip."; empty: none
  std::int64_t positions_before = 0,
               positions_after = 0;  ///< sides of the grid if it was resized

  bool fits() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
  /// "152 weights of timm's ViT; position embeddings from 14 x 14 to 24 x 24; left out:
  /// head.weight, head.bias; random: head.weight, head.bias".
  std::string text() const;
  /// "2 missing (a, b), 1 unexpected (c)"; empty if all fits.
  std::string misfits() const;
};

/// Loads the tensors of a model of transformers, timm, OpenAI or open_clip into the tower and the
/// projection of an ImageClassifier, or both towers of a ClipNetwork, by whichever names they have
/// (weight_names.h). Fused and separate projections are split and joined, OpenAI's projections are
/// transposed, position embeddings are resized, and numbers are converted to the weight's type.
/// Heads and adapters are not loaded, except for a CLIP's class head as the published training of
/// cars saves it. Prefixes that programs put before every name (wrapper_of()) are removed. The
/// tensors arrive piece by piece, so only the few that cannot be placed that way are held in memory
/// as a whole:
///
///   PretrainedPlaces places(network, shapes, resize);
///   if (!places.report().fits()) refuse(places.report().misfits());
///   read_saved_weights(reference, sha256, places.sink());
///   if (!places.report().fits()) refuse(places.report().misfits());  // errors in the values
class PretrainedPlaces {
 public:
  /// `saved` holds the tensors, of which only names and shapes are used. The network may be on the
  /// Meta device, where only the report is useful; it must outlive this. Throws runner::StageError
  /// if the names are of no known layout.
  PretrainedPlaces(torch::nn::Module& network, const NamedTensors& saved, PositionResize resize);
  PretrainedPlaces(const PretrainedPlaces&) = delete;
  PretrainedPlaces& operator=(const PretrainedPlaces&) = delete;
  ~PretrainedPlaces();

  const PretrainedReport& report() const { return report_; }
  /// Receives the tensors and writes them to the network, if the report fits(). It refers to this
  /// object.
  WeightSink sink();

 private:
  class Source;
  struct Place;
  void take(const WeightPiece& piece);
  bool take_class_head(const std::string& ours, const at::Tensor& weight, Source& source);

  PretrainedReport report_;
  PositionResize resize_;
  std::vector<Place> places_;
  std::vector<at::Tensor> zeros_;       // weights that only some layouts have; 0 for the others
  std::string bias_that_must_be_zero_;  // a tensor that has no place; empty: none
};

/// The same for tensors in memory: all or nothing.
PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved,
                                 PositionResize resize);

}  // namespace stages
