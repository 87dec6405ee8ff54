#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "stages/data/image_dataset.h"

namespace stages {

/// What recipes and records call these.
inline constexpr std::array<std::pair<std::string_view, Decode>, 2> kDecodes = {
    {{"exact", Decode::kExact}, {"fast", Decode::kFast}}};
inline constexpr std::array<std::pair<std::string_view, Interpolation>, 2> kInterpolations = {
    {{"bicubic", Interpolation::kBicubic}, {"bilinear", Interpolation::kBilinear}}};
inline constexpr std::array<std::pair<std::string_view, CropOffset>, 2> kCropOffsets = {
    {{"floor", CropOffset::kFloor}, {"round", CropOffset::kRound}}};
inline constexpr std::array<std::pair<std::string_view, ResizeShape>, 2> kResizeShapes = {
    {{"shortest_side", ResizeShape::kShortestSide}, {"square", ResizeShape::kSquare}}};

/// How a picture becomes the tensor "image" in evaluation, as JSON: {"kind": "image", "image_size",
/// "decode", "resize", "normalize"}, all as in a recipe, and where a picture is preprocessed
/// "preprocess": {"flatten_sharpen", "clahe"} with what is done of both, and where it is to show
/// something "subject": its name. What belongs to training, errors and loading is not in it.
std::string transform_json(const ImageDatasetOptions& options);

/// Reads what transform_json() wrote, wherever `text` comes from: the rest of the options is as it
/// is by default, and so is a subject that is none of `subjects`. Throws std::invalid_argument
/// saying what is wrong, in half a sentence: "its 'image_size' …".
ImageDatasetOptions transform_from_json(std::string_view text,
                                        std::span<const ImageSubject* const> subjects = {});

}  // namespace stages
