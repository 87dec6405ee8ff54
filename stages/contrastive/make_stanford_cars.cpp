#include "stages/contrastive/make_stanford_cars.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/new_folder.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/boxed_shape.h"
#include "stages/data/jpeg_writer.h"
#include "stages/data/mat_writer.h"
#include "stages/data/shapes.h"
#include "stages/random/permutation.h"

namespace stages {
namespace {

constexpr std::int64_t kFewestCars = 2;  // one for each part
constexpr std::int64_t kMostCars = 0xffff, kModelsOfAMake = 3, kGrayCarEvery = 10;
constexpr std::array<std::string_view, 8> kMakes = {"AM General", "Aston Martin", "Audi",       "BMW",
                                                    "Ford",       "Honda",        "Land Rover", "Volvo"};
constexpr std::array<std::string_view, 3> kBodies = {"Sedan", "Coupe", "SUV"};

/// "Audi Stripes Rising SUV 2008".
std::string model_name(std::int64_t label) {
  const auto number = static_cast<std::size_t>(label);
  std::string name(kMakes[number / kModelsOfAMake]);
  std::string_view words = shape_names()[number];
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find('_'));
    name += " " + capitalized(word);
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return name + " " + std::string(kBodies[number % kBodies.size()]) + " " + std::to_string(2000 + label);
}

/// The pictures of a part, and their annotations.
struct MadeCars {
  std::string folder;
  std::int64_t per_class = 0, first = 0;  // numbers of the first picture of each class
  MatRecords plain = {{"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "fname"}, {}};
  MatRecords labelled = {{"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"}, {}};

  void annotate(const Box& box, std::int64_t label, const std::string& name) {
    const std::vector<MatCell> edges = {std::int64_t{box.left + 1}, std::int64_t{box.top + 1},
                                        std::int64_t{box.left + box.width}, std::int64_t{box.top + box.height}};
    plain.rows.push_back(edges);
    plain.rows.back().emplace_back(name);
    labelled.rows.push_back(edges);
    labelled.rows.back().emplace_back(label + 1);
    labelled.rows.back().emplace_back(name);
  }
};

}  // namespace

void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
  check(images, kFewestCars);
  if (images.count() > kMostCars) {
    throw runner::StageError(runner::ErrorCode::kNotAllowedValue,
                             "cannot make " + std::to_string(images.count()) + " images")
        .at("/make")
        .with_help("a set of this form has at most " + std::to_string(kMostCars));
  }
  const auto seed = static_cast<std::uint64_t>(images.seed);
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  made.create("devkit");
  const std::int64_t training = (images.per_class + 1) / 2;
  std::array<MadeCars, 2> parts = {
      MadeCars{.folder = "cars_train/", .per_class = training},
      MadeCars{.folder = "cars_test/", .per_class = images.per_class - training, .first = training}};
  std::int64_t done = 0;
  for (MadeCars& part : parts) {
    made.create(part.folder.substr(0, part.folder.size() - 1));
    const Permutation places(images.classes * part.per_class, seed, part.first);
    for (std::int64_t place = 0; place < places.size(); ++place) {
      check_cancelled(callbacks);
      const std::int64_t label = places[place] / part.per_class, index = part.first + places[place] % part.per_class;
      const BoxedPicture picture = draw_boxed_shape(static_cast<std::size_t>(label), static_cast<int>(images.size),
                                                    seed, static_cast<std::uint64_t>(index));
      const std::string name = padded(place + 1, 5) + ".jpg";
      part.annotate(picture.box, label, name);
      made.write(part.folder + name, (place + 1) % kGrayCarEvery == 0 ? encode_gray_jpeg(picture.image, kMadeQuality)
                                                                      : encode_jpeg(picture.image, kMadeQuality));
      if (callbacks.progress) callbacks.progress(++done, images.count());
    }
  }

  std::vector<std::string> names;
  for (std::int64_t label = 0; label < images.classes; ++label) names.push_back(model_name(label));
  made.write("devkit/cars_meta.mat", mat_texts_file("class_names", names));
  made.write("devkit/cars_train_annos.mat", mat_records_file("annotations", parts[0].labelled));
  made.write("devkit/cars_test_annos.mat", mat_records_file("annotations", parts[1].plain));
  made.write("cars_test_annos_withlabels.mat", mat_records_file("annotations", parts[1].labelled));
  made.publish();
}

}  // namespace stages
