#pragma once

#include <filesystem>

#include "stages/data/shapes.h"

namespace stages {

/// Draws a small dataset in the format of Oxford Flowers 102 into `folder`/flowers-102/, with
/// torchvision's layout: jpg/, imagelabels.mat and setid.mat, whose lists are unordered, and
/// cat_to_name.json, which names the shapes. The files of a class are consecutive, in a random
/// order of classes, as in the published set. A quarter of each class is for training, a quarter
/// for validation, the rest for the test. The folder appears only when it is complete. Throws as
/// make_image_folder() does.
void make_flowers102(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// Draws a small dataset in the format of CUB-200-2011 into `folder`/CUB_200_2011/: images/,
/// images.txt, image_class_labels.txt, train_test_split.txt, classes.txt and bounding_boxes.txt. A
/// shape covers a part of its image, which is its box; the rest is plain. Half of each class is for
/// training. Every fifth file is greyscale. The folder appears only when it is complete. Throws as
/// make_image_folder() does.
void make_cub200(const std::filesystem::path& folder, const MadeImages& images,
                 const MakeCallbacks& callbacks = {});

}  // namespace stages
