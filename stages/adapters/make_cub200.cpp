#include "stages/adapters/make_cub200.h"

#include <string>
#include <vector>

#include "runner/shared/disk/new_folder.h"
#include "stages/data/boxed_shape.h"
#include "stages/data/jpeg_writer.h"
#include "stages/data/shapes.h"
#include "stages/random/permutation.h"

namespace stages {
namespace {

constexpr std::int64_t kFewest = 2;  // one for each part
constexpr std::int64_t kGrayEvery = 5;

}  // namespace

void make_cub200(const std::filesystem::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
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
    const std::string name = capitalized(shape_names()[shape]), below = padded(label + 1, 3) + "." + name;
    made.create(top + "images/" + below);
    classes += std::to_string(label + 1) + " " + below + "\n";
    const Permutation drawn(images.per_class, seed, label);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      check_cancelled(callbacks);
      const BoxedPicture picture =
          draw_boxed_shape(shape, static_cast<int>(images.size), seed, static_cast<std::uint64_t>(i));
      const std::string path =
          below + "/" + name + "_" + padded(i + 1, 4) + "_" + std::to_string(drawn[i] + 1) + ".jpg";
      const std::string head = std::to_string(++number) + " ";
      names += head + path + "\n";
      labels += head + std::to_string(label + 1) + "\n";
      parts += head + (drawn[i] < (images.per_class + 1) / 2 ? "1\n" : "0\n");
      boxes += head;
      for (const int edge : {picture.box.left, picture.box.top, picture.box.width, picture.box.height})
        boxes += std::to_string(edge) + ".0 ";
      boxes.back() = '\n';
      made.write(top + "images/" + path, number % kGrayEvery == 0 ? encode_gray_jpeg(picture.image, kMadeQuality)
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
