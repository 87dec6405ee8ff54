#pragma once

#include <filesystem>

#include "stages/data/made_images.h"

namespace stages {

/// Draws a small set of the form of Stanford Cars into `folder`: cars_train/00001.jpg, …, cars_test/00001.jpg, …,
/// devkit/cars_meta.mat, devkit/cars_train_annos.mat, devkit/cars_test_annos.mat and cars_test_annos_withlabels.mat. A
/// model is a shape, "Audi Cross Sedan 2006", and three of them have one maker. A shape takes up a part of its picture,
/// which is its box; the rest is plain. Half of each class trains; the files of a part are in no order of classes.
/// Every tenth file is greyscale. The folder appears when it is complete, or not at all. Throws as make_image_folder()
/// does, and for more images than such a set can count.
void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
