#pragma once

#include <filesystem>

#include "stages/data/shapes.h"

namespace stages {

/// Writes a small synthetic dataset in miniImagenet's layout to `folder`: Dataset/CLASS/IMAGE.jpg;
/// train.csv, val.csv and test.csv with the columns filename and label; and base.json, val.json,
/// novel.json and all.json with paths relative to `folder`. The seed assigns half of the classes to
/// training, a quarter to validation and a quarter to testing, at least one to each, so there must
/// be at least three. The folder appears only once it is complete. Throws like make_image_folder().
void make_mini_imagenet(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
