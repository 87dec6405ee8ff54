#pragma once

#include <filesystem>

#include "stages/data/shapes.h"

namespace stages {

/// Writes a small synthetic dataset in the Oxford Flowers 102 format to `folder`/flowers-102/, with
/// torchvision's layout: jpg/, imagelabels.mat, setid.mat with unordered lists, and
/// cat_to_name.json with the names of the shapes. As in the published dataset, the files of a class
/// are consecutive, and the classes are in random order. A quarter of each class is for training, a
/// quarter for validation, the rest for testing. The folder appears only once it is complete.
/// Throws like make_image_folder().
void make_flowers102(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks = {});

/// Writes a small synthetic dataset in the CUB-200-2011 format to `folder`/CUB_200_2011/: images/,
/// images.txt, image_class_labels.txt, train_test_split.txt, classes.txt and bounding_boxes.txt. A
/// shape fills a box in its image; the rest of the image is plain. Half of each class is for
/// training. Every fifth file is grayscale. The folder appears only once it is complete. Throws
/// like make_image_folder().
void make_cub200(const std::filesystem::path& folder, const MadeImages& images,
                 const MakeCallbacks& callbacks = {});

}  // namespace stages
