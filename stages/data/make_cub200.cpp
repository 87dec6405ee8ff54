#include "stages/data/make_cub200.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "stages/data/jpeg_writer.h"
#include "runner/disk/new_folder.h"
#include "stages/data/shapes.h"
#include "stages/random/permutation.h"

namespace stages {
namespace {

constexpr std::int64_t kFewest = 2;  // one for each part
constexpr std::int64_t kGrayEvery = 5;
constexpr std::uint64_t kPlaces = 1;  // beside the shape's own random numbers

struct Picture {
  Image image;
  Box box;
};

/// A shape of five eighths of the side somewhere on a plain, grainy ground.
Picture draw_bird(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index) {
  const int side = std::max(1, size * 5 / 8);
  Random random({seed, shape, index, kPlaces});
  Picture picture{Image(size, size), {0, 0, side, side}};
  picture.box.left = static_cast<int>(random.below(size - side + 1));
  picture.box.top = static_cast<int>(random.below(size - side + 1));
  const std::int64_t ground[3] = {random.below(200), random.below(200), random.below(200)};
  for (std::size_t i = 0; i < picture.image.pixels.size(); ++i)
    picture.image.pixels[i] = static_cast<std::uint8_t>(ground[i % 3] + random.below(24));
  const Image drawn = draw_shape(shape, side, Random({seed, shape, index}));
  for (int y = 0; y < side; ++y)
    std::copy_n(drawn.row(y), 3 * side, picture.image.row(picture.box.top + y) + 3 * picture.box.left);
  return picture;
}

std::string capitalized(std::string_view word) {
  std::string result(word);
  result.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(result.front())));
  return result;
}

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
      const Picture picture = draw_bird(shape, static_cast<int>(images.size), seed, static_cast<std::uint64_t>(i));
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
