#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stages/data/image_dataset.h"

namespace stages {

/// The names of the decoders in recipes and records.
inline constexpr std::array<std::pair<std::string_view, Decode>, 2> kDecodes = {
    {{"exact", Decode::kExact}, {"fast", Decode::kFast}}};
inline constexpr std::array<std::pair<std::string_view, Interpolation>, 2> kInterpolations = {
    {{"bicubic", Interpolation::kBicubic}, {"bilinear", Interpolation::kBilinear}}};
inline constexpr std::array<std::pair<std::string_view, CropOffset>, 2> kCropOffsets = {
    {{"floor", CropOffset::kFloor}, {"round", CropOffset::kRound}}};
inline constexpr std::array<std::pair<std::string_view, ResizeShape>, 2> kResizeShapes = {
    {{"shortest_side", ResizeShape::kShortestSide}, {"square", ResizeShape::kSquare}}};

/// Returns, as JSON, the transform that evaluation applies to an image file to obtain the tensor
/// "image": {"kind": "image", "image_size", "decode", "resize", "normalize"}, all as in a recipe.
/// Preprocessing adds "preprocess": {"crop_to_disc", "flatten_sharpen", "clahe"} with the steps in
/// use, and a subject adds "subject" with its name. Options that concern training, errors or
/// loading are not included.
std::string transform_json(const ImageDatasetOptions& options);

/// Parses the output of transform_json(); the text is not trusted. Other options keep their
/// defaults, and a subject that is not in `subjects` is ignored. Throws std::invalid_argument with
/// a clause that describes the error: "its 'image_size' …".
ImageDatasetOptions transform_from_json(std::string_view text,
                                        std::span<const ImageSubject* const> subjects = {});

}  // namespace stages
