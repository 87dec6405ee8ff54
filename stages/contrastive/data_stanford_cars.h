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

/// What the classes of Stanford Cars are: the published models, or their makers.
enum class CarLabels : std::uint8_t { kModel, kMake };

/// What the name of a published class says: "Audi TT Hatchback 2011".
struct CarName {
  std::string make, model, year;
};

/// The last word of a name is the year, of four digits. The first is the maker, or the first two
/// for AM General, Aston Martin and Land Rover; what is between is the model. nullopt where one of
/// them is not there.
std::optional<CarName> car_name(std::string_view name);

/// What root/ or root/stanford_cars/ holds, in the order of the annotations: cars_train/00001.jpg,
/// …, cars_test/…, each perhaps one folder deeper (cars_train/cars_train/), and devkit/ with
/// cars_meta.mat and cars_train_annos.mat, the annotations of the training images: `class`, counted
/// from one, `fname`, and with `boxes` bbox_x1, bbox_y1, bbox_x2 and bbox_y2, of which pixels count
/// from one and belong to the box. cars_test_annos_withlabels.mat has the same of the test images
/// and lies beside devkit or in it; without it there are no images for the test, and `no_test` says
/// so. Captions can say {name}, {make}, {model} and {year}. A smaller set of the same form is one.
/// Everything wrong is reported at once, without a place, image files that are not there included.
runner::Result<ImageList> list_stanford_cars(const std::filesystem::path& root, CarLabels labels,
                                             bool boxes, bool allow_outside);

/// Draws a small set of the form of Stanford Cars into `folder`: cars_train/00001.jpg, …,
/// cars_test/00001.jpg, …, devkit/cars_meta.mat, devkit/cars_train_annos.mat,
/// devkit/cars_test_annos.mat and cars_test_annos_withlabels.mat. A model is a shape, "Audi Cross
/// Sedan 2006", and three of them have one maker. A shape takes up a part of its picture, which is
/// its box; the rest is plain. Half of each class trains; the files of a part are in no order of
/// classes. Every tenth file is greyscale. The folder appears when it is complete, or not at all.
/// Throws as make_image_folder() does, and for more images than such a set can count.
void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks = {});

}  // namespace stages
