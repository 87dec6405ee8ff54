#pragma once

#include <filesystem>

#include "stages/data/shapes.h"

namespace stages {

/// Draws a small set in the layout of miniImagenet into `folder`: Dataset/CLASS/IMAGE.jpg;
/// train.csv, val.csv and test.csv with the columns filename and label; and base.json, val.json,
/// novel.json and all.json, whose paths are relative to `folder`. Half of the classes, drawn by the
/// seed, train, a quarter validates and a quarter tests, at least one each: at least three classes.
/// The folder appears only when it is complete. Throws as make_image_folder() does.
void make_mini_imagenet(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
