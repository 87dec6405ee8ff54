#pragma once

#include <filesystem>

#include "stages/data/shapes.h"

namespace stages {

/// Draws a small set of the form of Oxford Flowers 102 into `folder`/flowers-102/, as torchvision
/// lays it out: jpg/, imagelabels.mat and setid.mat, whose lists are in no order, and
/// cat_to_name.json, which names the shapes. The classes lie one after another among the files, in
/// a random order, as they do in the published set. A quarter of each class trains, a quarter
/// validates, the rest is for the test. The folder appears when it is complete, or not at all.
/// Throws as make_image_folder() does.
void make_flowers102(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// Draws a small set of the form of CUB-200-2011 into `folder`/CUB_200_2011/: images/, images.txt,
/// image_class_labels.txt, train_test_split.txt, classes.txt and bounding_boxes.txt. A shape takes
/// up a part of its picture, which is its box; the rest is plain. Half of each class trains. Every
/// fifth file is greyscale. The folder appears when it is complete, or not at all. Throws as
/// make_image_folder() does.
void make_cub200(const std::filesystem::path& folder, const MadeImages& images,
                 const MakeCallbacks& callbacks = {});

}  // namespace stages
