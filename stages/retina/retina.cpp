#include "stages/retina/retina.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image_writer.h"
#include "stages/random/random.h"
#include "stages/retina/fundus_list.h"

namespace stages {
namespace {

using Tint = std::array<float, 3>;  // factors of red, green and blue

/// A position on the retina: the origin is the center, and the edge is at distance 1.
struct Spot {
  double x = 0, y = 0;
};

class RetinaDrawing {
 public:
  RetinaDrawing(int size, Random random) : size_(size), random_(random) {
    radius_ = size * random_.uniform(0.45, 0.49);
    middle_ = {size / 2.0 + size * random_.uniform(-0.01, 0.01),
               size / 2.0 + size * random_.uniform(-0.01, 0.01)};
    is_left_ = random_.uniform() < 0.5;
    disc_ = {(is_left_ ? -1 : 1) * random_.uniform(0.42, 0.52), random_.uniform(-0.08, 0.08)};
    lay_ground();
    add_macula();
    add_vessels();
    add_disc();
  }

  void add_lesions(std::int64_t grade) {
    switch (grade) {
      case 1:
        return add_dots(5, 9, 0.02, 0.032, kBlood);
      case 2:
        add_dots(6, 10, 0.02, 0.035, kBlood);
        add_dots(3, 5, 0.05, 0.075, kBlood);
        return add_exudates(10, 16);
      case 3:
        add_dots(8, 14, 0.02, 0.035, kBlood);
        add_quadrants();
        add_exudates(3, 8);
        return add_dots(3, 5, 0.06, 0.085, kCottonWool);
      case 4:
        add_dots(6, 10, 0.02, 0.035, kBlood);
        add_dots(3, 5, 0.05, 0.075, kBlood);
        for (int tangle = 0; tangle < 3; ++tangle) add_new_vessels();
        return add_bleeding();
      default:
        return;
    }
  }

  Image photograph() {
    Image image(size_, size_);
    for (int y = 0; y < size_; ++y) {
      for (int x = 0; x < size_; ++x) {
        const double outside = std::hypot(x + 0.5 - middle_.x, y + 0.5 - middle_.y) - radius_;
        const double shown = std::clamp(0.5 - outside, 0.0, 1.0);
        for (std::size_t channel = 0; channel < 3; ++channel) {
          const double grain = 5 * (random_.uniform() + random_.uniform() - 1);
          const double value = (at(x, y)[channel] + grain) * shown;
          image.row(y)[3 * x + static_cast<int>(channel)] =
              static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
        }
      }
    }
    return image;
  }

 private:
  static constexpr Tint kBlood = {0.55f, 0.3f, 0.35f}, kVessel = {0.72f, 0.52f, 0.6f},
                        kNewVessel = {0.8f, 0.42f, 0.5f}, kExudate = {1.35f, 1.9f, 1.6f},
                        kCottonWool = {1.25f, 1.6f, 2.0f}, kDisc = {1.4f, 1.85f, 1.9f},
                        kMacula = {0.75f, 0.6f, 0.6f};

  Tint& at(int x, int y) { return ground_[static_cast<std::size_t>(y * size_ + x)]; }

  void lay_ground() {
    const double light = random_.uniform(0.6, 1.25);
    const Tint color = {static_cast<float>(190 * light),
                        static_cast<float>(190 * light * random_.uniform(0.38, 0.55)),
                        static_cast<float>(190 * light * random_.uniform(0.12, 0.3))};
    const double slope_x = random_.uniform(-0.2, 0.2), slope_y = random_.uniform(-0.2, 0.2);
    const double fall = random_.uniform(0.15, 0.4), phase = random_.uniform(0, 6),
                 waves = random_.uniform(2, 5);
    ground_.resize(static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_));
    for (int y = 0; y < size_; ++y) {
      for (int x = 0; x < size_; ++x) {
        const Spot spot{(x + 0.5 - middle_.x) / radius_, (y + 0.5 - middle_.y) / radius_};
        const double from_middle = std::hypot(spot.x, spot.y);
        const double here =
            1 + slope_x * spot.x + slope_y * spot.y - fall * from_middle * from_middle +
            0.04 * std::sin(waves * spot.x + phase) * std::cos(waves * spot.y - phase);
        for (std::size_t channel = 0; channel < 3; ++channel)
          at(x, y)[channel] = color[channel] * static_cast<float>(here);
      }
    }
  }

  /// Tints a round spot that fades out over the fraction `edge` of its radius.
  void tint(const Spot& spot, double radius, double edge, const Tint& color, double strength = 1) {
    const double x0 = middle_.x + spot.x * radius_, y0 = middle_.y + spot.y * radius_;
    const double r = std::max(radius * radius_, 0.6), fade = std::max(edge * r, 1.0);
    const auto first = [&](double middle) {
      return std::max(0, static_cast<int>(middle - r - fade));
    };
    const auto last = [&](double middle) {
      return std::min(size_ - 1, static_cast<int>(middle + r + fade));
    };
    for (int y = first(y0); y <= last(y0); ++y) {
      for (int x = first(x0); x <= last(x0); ++x) {
        const double inside = r - std::hypot(x + 0.5 - x0, y + 0.5 - y0);
        const double covered = strength * std::clamp(inside / fade + 0.5, 0.0, 1.0);
        for (std::size_t channel = 0; channel < 3; ++channel)
          at(x, y)[channel] *=
              static_cast<float>(1 + covered * (static_cast<double>(color[channel]) - 1));
      }
    }
  }

  void add_macula() { tint({-disc_.x * 0.25, disc_.y + 0.05}, 0.16, 1.5, kMacula, 0.8); }

  void add_disc() {
    const double radius = random_.uniform(0.13, 0.17);
    tint(disc_, radius, 0.3, kDisc, 0.9);
    tint({disc_.x + 0.02, disc_.y}, radius * 0.45, 0.6, {1.1f, 1.2f, 1.25f});
  }

  /// Draws a winding line of spots starting at `from`. Spots overlap, so each of them tints only
  /// weakly.
  void add_vessel(Spot from, double angle, double width, double length, double bend,
                  const Tint& color, double winding) {
    const double step = std::max(width * 0.7, 0.8 / radius_);
    for (double gone = 0; gone < length; gone += step) {
      const double share = gone / length;
      tint(from, width * (1 - 0.7 * share) / 2, 0.5, color, 0.4);
      angle += bend * step + winding * (random_.uniform() - 0.5);
      from.x += step * std::cos(angle);
      from.y += step * std::sin(angle);
      if (std::hypot(from.x, from.y) > 1.02) return;
    }
  }

  void add_vessels() {
    const double inward = disc_.x < 0 ? 0 : std::numbers::pi;  // toward the macula
    const double turn = disc_.x < 0 ? 1 : -1;
    for (const double side : {-1.0, 1.0}) {
      for (int pair = 0; pair < 2; ++pair) {
        const double width = random_.uniform(0.03, 0.045);
        const double start =
            inward + turn * side * (1.25 + 0.25 * pair + random_.uniform(-0.1, 0.1));
        add_vessel(disc_, start, width, 1.9, -turn * side * random_.uniform(0.7, 1.0), kVessel,
                   0.1);
        add_vessel(disc_, start + turn * side * random_.uniform(0.5, 0.9), width * 0.8, 0.8,
                   turn * side * random_.uniform(0.0, 0.5), kVessel, 0.15);
      }
    }
    for (int fine = 0; fine < 6; ++fine)
      add_vessel(disc_, random_.uniform(0, 2 * std::numbers::pi), 0.018, random_.uniform(0.4, 1.0),
                 random_.uniform(-1, 1), kVessel, 0.2);
  }

  Spot somewhere(double nearest = 0.15, double farthest = 0.85) {
    while (true) {
      const Spot spot{random_.uniform(-farthest, farthest), random_.uniform(-farthest, farthest)};
      const double from_middle = std::hypot(spot.x, spot.y);
      if (from_middle > nearest && from_middle < farthest &&
          std::hypot(spot.x - disc_.x, spot.y - disc_.y) > 0.25)
        return spot;
    }
  }

  std::int64_t count(std::int64_t fewest, std::int64_t most) {
    return fewest + random_.below(most - fewest + 1);
  }

  void add_dots(std::int64_t fewest, std::int64_t most, double smallest, double largest,
                const Tint& color) {
    for (std::int64_t left = count(fewest, most); left > 0; --left)
      tint(somewhere(), random_.uniform(smallest, largest), color == kCottonWool ? 0.9 : 0.4,
           color);
  }

  void add_quadrants() {
    for (const double x : {-1.0, 1.0}) {
      for (const double y : {-1.0, 1.0}) {
        for (std::int64_t left = count(4, 6); left > 0; --left) {
          const Spot spot = somewhere();
          tint({std::abs(spot.x) * x, std::abs(spot.y) * y}, random_.uniform(0.045, 0.075), 0.4,
               kBlood);
        }
      }
    }
  }

  /// Places exudates in two clusters.
  void add_exudates(std::int64_t fewest, std::int64_t most) {
    const std::array<Spot, 2> clusters = {somewhere(0.15, 0.6), somewhere(0.15, 0.6)};
    for (std::int64_t left = count(fewest, most); left > 0; --left) {
      const Spot& cluster = clusters[static_cast<std::size_t>(left % 2)];
      tint({cluster.x + random_.uniform(-0.15, 0.15), cluster.y + random_.uniform(-0.15, 0.15)},
           random_.uniform(0.018, 0.035), 0.3, kExudate);
    }
  }

  void add_new_vessels() {
    const Spot root = somewhere();
    for (std::int64_t left = count(8, 12); left > 0; --left)
      add_vessel(root, random_.uniform(0, 2 * std::numbers::pi), 0.02, random_.uniform(0.15, 0.35),
                 random_.uniform(-9, 9), kNewVessel, 0.6);
  }

  /// Draws bleeding with a level upper edge, since blood in front of the retina sinks.
  void add_bleeding() {
    const Spot spot = somewhere(0.3, 0.7);
    const double width = random_.uniform(0.16, 0.24);
    for (double x = -width; x <= width; x += 0.02)
      for (double y = 0; y <= 0.6 * std::sqrt(width * width - x * x); y += 0.02)
        tint({spot.x + x, spot.y + y}, 0.02, 0.5, kBlood, 0.35);
  }

  const int size_;
  Random random_;
  double radius_ = 0;
  Spot middle_, disc_;
  bool is_left_ = false;
  std::vector<Tint> ground_;
};

}  // namespace

Image draw_retina(std::int64_t grade, int size, Random random) {
  RetinaDrawing drawing(size, random);
  drawing.add_lesions(grade);
  return drawing.photograph();
}

namespace {

/// Draws and writes the images of a dataset.
class RetinaMaker {
 public:
  RetinaMaker(const std::filesystem::path& folder, const MadeImages& images,
              const MakeCallbacks& callbacks, std::int64_t fewest)
      : images_(checked(images, fewest)),
        callbacks_(callbacks),
        made_(folder, *callbacks.storage, "/root") {}

  void create(const std::string& folder) { made_.create(folder); }
  void write(const std::string& name, const std::string& text) { made_.write(name, text); }
  void publish() { made_.publish(); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(images_.seed); }

  /// Draws image number `index` of a grade.
  void photograph(const std::string& name, std::int64_t grade, std::int64_t index) {
    check_canceled(callbacks_);
    const Image image = draw_retina(
        grade, static_cast<int>(images_.size),
        Random({seed(), static_cast<std::uint64_t>(grade), static_cast<std::uint64_t>(index)}));
    made_.write(name, name.ends_with(".png") ? png_file(image) : encode_jpeg(image, kMadeQuality));
    if (callbacks_.progress) callbacks_.progress(++done_, images_.count());
  }

 private:
  static const MadeImages& checked(const MadeImages& images, std::int64_t fewest) {
    check(images, fewest);
    if (images.classes <= kGrades) return images;
    throw runner::StageError(runner::ErrorCode::kNotAllowedValue,
                             "cannot make " + std::to_string(images.classes) + " grades")
        .at("/make/classes")
        .with_help("choose at most " + std::to_string(kGrades));
  }

  const MadeImages images_;
  const MakeCallbacks& callbacks_;
  runner::NewFolder made_;
  std::int64_t done_ = 0;
};

/// Returns an id in the form of APTOS's image names: "0a1b2c3d4e5f".
std::string drawn_id(std::uint64_t number) {
  std::string id;
  for (int digit = 0; digit < 12; ++digit, number >>= 4) id += "0123456789abcdef"[number & 15];
  return id;
}

}  // namespace

void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images,
                     const MakeCallbacks& callbacks) {
  RetinaMaker made(folder, images, callbacks, /*fewest=*/1);
  made.create("train_images");
  std::string table = "id_code,diagnosis\n";
  const Permutation places(images.count(), made.seed(), 0);
  for (std::int64_t place = 0; place < places.size(); ++place) {
    const std::int64_t grade = places[place] / images.per_class,
                       index = places[place] % images.per_class;
    const std::string id =
        drawn_id(Random({made.seed(), static_cast<std::uint64_t>(place)}).next());
    made.photograph("train_images/" + id + ".png", grade, index);
    table += id + "," + std::to_string(grade) + "\n";
  }
  made.write("train.csv", table);
  made.publish();
}

void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks) {
  RetinaMaker made(folder, images, callbacks, /*fewest=*/2);
  made.create("train");
  made.create("test");
  std::string labels = "image,level\n", solution = "image,level,Usage\n";
  // Two consecutive images, in the order of grades, are the eyes of a patient.
  const Permutation patients((images.count() + 1) / 2, made.seed(), 0);
  for (std::int64_t place = 0; place < patients.size(); ++place) {
    const bool is_test = place >= (patients.size() + 1) / 2;
    for (const std::int64_t eye : {0, 1}) {
      const std::int64_t number = 2 * patients[place] + eye;
      if (number == images.count()) continue;
      const std::int64_t grade = number / images.per_class;
      const std::string name = std::to_string(10 + 3 * place) + (eye == 0 ? "_left" : "_right");
      made.photograph((is_test ? "test/" : "train/") + name + ".jpeg", grade,
                      number % images.per_class);
      (is_test ? solution : labels) +=
          name + "," + std::to_string(grade) +
          (is_test ? place % 5 == 0 ? ",Public\n" : ",Private\n" : "\n");
    }
  }
  made.write("trainLabels.csv", labels);
  made.write("retinopathy_solution.csv", solution);
  made.publish();
}

void make_fundus_folders(const std::filesystem::path& folder, const MadeImages& images,
                         const MakeCallbacks& callbacks) {
  RetinaMaker made(folder, images, callbacks, /*fewest=*/3);
  const std::int64_t held = std::max<std::int64_t>(1, images.per_class / 5);
  for (const char* const part : {"train", "val", "test"}) made.create(part);
  for (std::int64_t grade = 0; grade < images.classes; ++grade) {
    for (const char* const part : {"train/", "val/", "test/"})
      made.create(part + std::to_string(grade));
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      const char* const part = i < held ? "test/" : i < 2 * held ? "val/" : "train/";
      made.photograph(part + std::to_string(grade) + "/" + padded(i + 1, 5) + ".jpg", grade, i);
    }
  }
  made.publish();
}

namespace {

constexpr int kLooks = 96;             // in each direction
constexpr int kDark = 3 * 16;          // sum of red, green and blue
constexpr double kFewestBright = 0.2;  // fraction of the image
constexpr double kRedOverGreen = 1.1, kRedOverBlue = 1.3;
constexpr double kFewestInside = 0.6,
                 kMostOutside = 0.4;  // fractions of bright pixels in the disc and in its
                                      // surroundings

}  // namespace

bool looks_like_retina(const Image& image) {
  std::array<std::array<bool, kLooks>, kLooks> is_bright{};
  std::array<std::int64_t, 3> sums{};
  int bright = 0, left = kLooks, right = -1, top = kLooks, bottom = -1;
  for (int row = 0; row < kLooks; ++row) {
    for (int column = 0; column < kLooks; ++column) {
      const int y = static_cast<int>((2LL * row + 1) * image.height / (2 * kLooks));
      const int x = static_cast<int>((2LL * column + 1) * image.width / (2 * kLooks));
      const std::uint8_t* const pixel = image.row(y) + std::ptrdiff_t{3} * x;
      if (pixel[0] + pixel[1] + pixel[2] < kDark) continue;
      is_bright[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = true;
      for (std::size_t channel = 0; channel < 3; ++channel) sums[channel] += pixel[channel];
      ++bright;
      left = std::min(left, column);
      right = std::max(right, column);
      top = std::min(top, row);
      bottom = std::max(bottom, row);
    }
  }
  if (bright < kFewestBright * kLooks * kLooks) return false;
  const auto [red, green, blue] = sums;
  if (static_cast<double>(red) < kRedOverGreen * static_cast<double>(green) ||
      static_cast<double>(red) < kRedOverBlue * static_cast<double>(blue))
    return false;

  // If the disc is cut off, the longer side of the bright area is its diameter. Converts points to
  // pixels, since points are not square.
  const double across = static_cast<double>(image.width) / kLooks,
               down = static_cast<double>(image.height) / kLooks;
  const double radius = std::max((right - left + 1) * across, (bottom - top + 1) * down) / 2;
  const double middle_x = (left + right + 1) * across / 2, middle_y = (top + bottom + 1) * down / 2;
  int inside = 0, outside = 0, bright_inside = 0, bright_outside = 0;
  for (int row = 0; row < kLooks; ++row) {
    for (int column = 0; column < kLooks; ++column) {
      const double x = (column + 0.5) * across - middle_x, y = (row + 0.5) * down - middle_y;
      const bool is_inside = x * x + y * y < radius * radius;
      const bool shines =
          is_bright[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      (is_inside ? inside : outside) += 1;
      if (shines) (is_inside ? bright_inside : bright_outside) += 1;
    }
  }
  return bright_inside > kFewestInside * inside && outside > 0 &&
         bright_outside < kMostOutside * outside;
}

const ImageSubject kRetina = {.name = "retina",
                              .what = "a photograph of a retina",
                              .looks_alike = looks_like_retina,
                              .has_patients = true};

}  // namespace stages
