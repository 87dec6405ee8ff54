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

/// Whether the classes of Stanford Cars are the published models or their makes.
enum class CarLabels : std::uint8_t { kModel, kMake };

/// The parts of a published class name such as "Audi TT Hatchback 2011".
struct CarName {
  std::string make, model, year;
};

/// Parses a class name. The last word is the four-digit year. The first word is the make; AM
/// General, Aston Martin and Land Rover are two words. The words between are the model. Returns
/// nullopt if one of the parts is missing.
std::optional<CarName> car_name(std::string_view name);

/// Lists Stanford Cars in root/ or root/stanford_cars/, in the order of the annotations. The images
/// are cars_train/00001.jpg, …, and cars_test/…, each possibly one folder deeper
/// (cars_train/cars_train/). devkit/ contains cars_meta.mat and cars_train_annos.mat, with the
/// annotations of the training images: `class` (starting at one), `fname` and, if `boxes` is set,
/// the inclusive pixel positions bbox_x1, bbox_y1, bbox_x2 and bbox_y2, which also start at one.
/// cars_test_annos_withlabels.mat, next to devkit or in it, contains the same for the test images.
/// Without it there are no test images, and `no_test` explains why. Captions can use {name},
/// {make}, {model} and {year}. A smaller dataset in the same layout is also valid. All errors,
/// including missing image files, are reported together, without a location in the recipe.
runner::Result<ImageList> list_stanford_cars(const std::filesystem::path& root, CarLabels labels,
                                             bool boxes, bool allow_outside);

/// Writes a small synthetic dataset in the Stanford Cars layout to `folder`: cars_train/00001.jpg,
/// …, cars_test/00001.jpg, …, devkit/cars_meta.mat, devkit/cars_train_annos.mat,
/// devkit/cars_test_annos.mat and cars_test_annos_withlabels.mat. A model is a shape, as in "Audi
/// Cross Sedan 2006"; three models share a make. A shape fills a box in its image; the rest of the
/// image is plain. Half of each class is for training; the files of a part are not ordered by
/// class. Every tenth file is grayscale. The folder appears only once it is complete. Throws like
/// make_image_folder(), and if there are more images than the format allows.
void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
