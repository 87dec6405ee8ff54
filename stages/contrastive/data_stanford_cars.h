#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"
#include "stages/data/shapes.h"

namespace stages {

/// What the classes of Stanford Cars are: the published models, or their makes.
enum class CarLabels : std::uint8_t { kModel, kMake };

/// The parts of a published class name such as "Audi TT Hatchback 2011".
struct CarName {
  std::string make, model, year;
};

/// Parses a class name. The last word is the year, of four digits. The first word is the make; AM
/// General, Aston Martin and Land Rover have two words. The model is what is between. nullopt if
/// one of the parts is missing.
std::optional<CarName> car_name(std::string_view name);

/// Lists what root/ or root/stanford_cars/ holds, in the order of the annotations:
/// cars_train/00001.jpg, …, cars_test/…, each possibly one folder deeper (cars_train/cars_train/),
/// and devkit/ with cars_meta.mat and cars_train_annos.mat. The latter has the annotations of the
/// training images: `class`, counted from one, `fname`, and with `boxes` bbox_x1, bbox_y1, bbox_x2
/// and bbox_y2, whose pixels count from one and are inclusive. cars_test_annos_withlabels.mat has
/// the same for the test images, and lies next to devkit or in it. Without it there are no test
/// images, and `no_test` says so. Captions can use {name}, {make}, {model} and {year}. A smaller
/// set in the same layout is also valid. All errors are reported at once, without a place,
/// including missing image files.
runner::Result<ImageList> list_stanford_cars(const std::filesystem::path& root, CarLabels labels,
                                             bool boxes, bool allow_outside);

/// Draws a small set in the layout of Stanford Cars into `folder`: cars_train/00001.jpg, …,
/// cars_test/00001.jpg, …, devkit/cars_meta.mat, devkit/cars_train_annos.mat,
/// devkit/cars_test_annos.mat and cars_test_annos_withlabels.mat. A model is a shape, "Audi Cross
/// Sedan 2006"; three models share a make. A shape fills part of its image, which is its box; the
/// rest is plain. Half of each class is for training; the files of a part are not ordered by class.
/// Every tenth file is greyscale. The folder appears only when it is complete. Throws as
/// make_image_folder() does, and if there are more images than such a set can number.
void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
