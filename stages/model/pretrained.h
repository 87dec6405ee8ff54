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

/// How position embeddings are brought to another number of patches.
enum class PositionResize {
  kBicubic,           ///< without antialiasing, as transformers' interpolate_pos_encoding
  kBicubicAntialias,  ///< with, as timm's resample_abs_pos_embed, which computes in float32 always
};

/// `positions` (1 + n², width), the class token's first, as (tokens, width) for a grid of another
/// side; both `tokens` and the rows of `positions` are one more than a square. Differentiable. The
/// class token's is not touched.
at::Tensor resize_positions(const at::Tensor& positions, std::int64_t tokens, PositionResize how);

/// The side of the square grid of `tokens` less the class token; 0 where they make none.
std::int64_t grid_side(std::int64_t tokens);

/// What became of every tensor that a file of weights held, and of every weight that the network
/// has.
struct PretrainedReport {
  WeightLayout layout = WeightLayout::kClip;
  std::int64_t taken = 0;  ///< weights of the network that now have the file's values
  std::vector<std::string>
      missing;  ///< names, as the file would have them, of weights that it lacks
  std::vector<std::string> unexpected;   ///< tensors that no part of such a model has
  std::vector<std::string> wrong_shape;  ///< "vit.layernorm.weight [48] for [64]"
  std::vector<std::string>
      left_out;  ///< tensors of parts that this network has not: a text tower, another head
  std::vector<std::string> random;  ///< weights that no file of this layout has: the head
  std::string wrapper;  ///< before the names in the file: "module.", "clip."; empty: nothing
  std::int64_t positions_before = 0,
               positions_after = 0;  ///< sides of the grid, where it was resized

  bool fits() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
  /// "152 weights of timm's ViT; position embeddings from 14 x 14 to 24 x 24; left out:
  /// head.weight, head.bias; random: head.weight, head.bias".
  std::string text() const;
  /// "2 missing (a, b), 1 unexpected (c)"; empty where all fits.
  std::string misfits() const;
};

/// How the tensors of a model of transformers, timm, OpenAI or open_clip become the tower and the
/// projection of an ImageClassifier, or both towers of a ClipNetwork, by whichever names they have
/// (weight_names.h): fused and separate projections are cut and joined, OpenAI's projections are
/// transposed, position embeddings are resized, numbers are converted to the weight's type. Heads
/// and adapters are no part of it, but for the class head of a CLIP as the published training of
/// cars saves it. What programs put before every name (wrapper_of()) is taken off. The tensors come
/// piece by piece, so that never more than the few that cannot be placed piece by piece are in
/// memory:
///
///   PretrainedPlaces places(network, shapes, resize);
///   if (!places.report().fits()) refuse(places.report().misfits());
///   read_saved_weights(reference, sha256, places.sink());
///   if (!places.report().fits()) refuse(places.report().misfits());  // what only numbers can tell
class PretrainedPlaces {
 public:
  /// `saved` are the tensors, of which only names and shapes are looked at. The network may be on
  /// the Meta device, then only the report is of use; it must outlive this. Throws
  /// runner::StageError where the names are of no layout that is known.
  PretrainedPlaces(torch::nn::Module& network, const NamedTensors& saved, PositionResize resize);
  PretrainedPlaces(const PretrainedPlaces&) = delete;
  PretrainedPlaces& operator=(const PretrainedPlaces&) = delete;
  ~PretrainedPlaces();

  const PretrainedReport& report() const { return report_; }
  /// Gives the network the numbers that come, if the report fits(). It refers to this object.
  WeightSink sink();

 private:
  class Source;
  struct Place;
  void take(const WeightPiece& piece);
  bool take_class_head(const std::string& ours, const at::Tensor& weight, Source& source);

  PretrainedReport report_;
  PositionResize resize_;
  std::vector<Place> places_;
  std::vector<at::Tensor> zeros_;  // weights that only some layouts have, and that are 0 elsewhere
  std::string bias_that_must_be_zero_;  // a tensor that has no place; empty: none
};

/// The same for tensors that are in memory: everything or nothing.
PretrainedReport load_pretrained(torch::nn::Module& network, const NamedTensors& saved,
                                 PositionResize resize);

}  // namespace stages
