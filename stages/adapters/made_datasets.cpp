#include "stages/adapters/made_datasets.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image_writer.h"
#include "stages/data/mat_file.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {
namespace {

constexpr std::int64_t kFewestFlowers = 3;  // one for each part
constexpr std::int64_t kMost = 0xffff;      // the published lists store 16-bit numbers

MatMatrix row(const std::string& name, std::vector<std::int64_t> values) {
  const auto columns = static_cast<std::int64_t>(values.size());
  return {name, 1, columns, std::move(values)};
}

}  // namespace

void make_flowers102(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks) {
  check(images, kFewestFlowers);
  if (images.count() > kMost) {
    throw runner::StageError(runner::ErrorCode::kNotAllowedValue,
                             "cannot make " + std::to_string(images.count()) + " images")
        .at("/make")
        .with_help("make fewer; this format allows at most " + std::to_string(kMost));
  }
  const auto seed = static_cast<std::uint64_t>(images.seed);
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  made.create("flowers-102");
  made.create("flowers-102/jpg");

  std::vector<std::int64_t> labels(static_cast<std::size_t>(images.count()));
  std::vector<std::int64_t> before(
      static_cast<std::size_t>(images.classes));  // the image number before each class's first
                                                  // image
  const Permutation classes(images.classes, seed, 0);
  std::int64_t number = 0;
  for (std::int64_t place = 0; place < images.classes; ++place) {
    const std::int64_t label = classes[place];
    before[static_cast<std::size_t>(label)] = number;
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      check_canceled(callbacks);
      const Random random({seed, static_cast<std::uint64_t>(label), static_cast<std::uint64_t>(i)});
      const Image image =
          draw_shape(static_cast<std::size_t>(label), static_cast<int>(images.size), random);
      labels[static_cast<std::size_t>(number++)] = label + 1;
      made.write("flowers-102/jpg/image_" + padded(number, 5) + ".jpg",
                 encode_jpeg(image, kMadeQuality));
      if (callbacks.progress) callbacks.progress(number, images.count());
    }
  }

  std::vector<std::int64_t> training, validation, test;
  nlohmann::ordered_json names;
  const std::int64_t share = std::max<std::int64_t>(1, images.per_class / 4);
  for (std::int64_t label = 0; label < images.classes; ++label) {
    names[std::to_string(label + 1)] = shape_names()[static_cast<std::size_t>(label)];
    const Permutation drawn(images.per_class, seed, label + 1);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      auto& part = i < share ? training : i < 2 * share ? validation : test;
      part.push_back(before[static_cast<std::size_t>(label)] + drawn[i] + 1);
    }
  }
  made.write("flowers-102/cat_to_name.json", names.dump(2) + "\n");
  made.write("flowers-102/imagelabels.mat", mat_file(std::array{row("labels", std::move(labels))}));
  made.write("flowers-102/setid.mat", mat_file(std::array{row("trnid", std::move(training)),
                                                          row("valid", std::move(validation)),
                                                          row("tstid", std::move(test))}));
  made.publish();
}

namespace {

constexpr std::int64_t kFewest = 2;  // one for each part
constexpr std::int64_t kGrayEvery = 5;

}  // namespace

void make_cub200(const std::filesystem::path& folder, const MadeImages& images,
                 const MakeCallbacks& callbacks) {
  check(images, kFewest);
  const auto seed = static_cast<std::uint64_t>(images.seed);
  const std::string top = "CUB_200_2011/";
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  made.create("CUB_200_2011");
  made.create(top + "images");
  std::string classes, names, labels, parts, boxes;  // the text files
  std::int64_t number = 0;
  for (std::int64_t label = 0; label < images.classes; ++label) {
    const auto shape = static_cast<std::size_t>(label);
    const std::string name = capitalized(shape_names()[shape]),
                      below = padded(label + 1, 3) + "." + name;
    made.create(top + "images/" + below);
    classes += std::to_string(label + 1) + " " + below + "\n";
    const Permutation drawn(images.per_class, seed, label);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      check_canceled(callbacks);
      const BoxedImage picture = draw_boxed_shape(shape, static_cast<int>(images.size), seed,
                                                  static_cast<std::uint64_t>(i));
      const std::string path =
          below + "/" + name + "_" + padded(i + 1, 4) + "_" + std::to_string(drawn[i] + 1) + ".jpg";
      const std::string head = std::to_string(++number) + " ";
      names += head + path + "\n";
      labels += head + std::to_string(label + 1) + "\n";
      parts += head + (drawn[i] < (images.per_class + 1) / 2 ? "1\n" : "0\n");
      boxes += head;
      for (const int edge :
           {picture.box.left, picture.box.top, picture.box.width, picture.box.height})
        boxes += std::to_string(edge) + ".0 ";
      boxes.back() = '\n';
      made.write(top + "images/" + path, number % kGrayEvery == 0
                                             ? encode_gray_jpeg(picture.image, kMadeQuality)
                                             : encode_jpeg(picture.image, kMadeQuality));
      if (callbacks.progress) callbacks.progress(number, images.count());
    }
  }
  made.write(top + "classes.txt", classes);
  made.write(top + "images.txt", names);
  made.write(top + "image_class_labels.txt", labels);
  made.write(top + "train_test_split.txt", parts);
  made.write(top + "bounding_boxes.txt", boxes);
  made.publish();
}

}  // namespace stages
