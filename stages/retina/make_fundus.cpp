#include "stages/retina/make_fundus.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "runner/shared/disk/new_folder.h"
#include "runner/shared/stage/stage.h"
#include "stages/retina/fundus_list.h"
#include "stages/data/jpeg_writer.h"
#include "stages/data/png_writer.h"
#include "stages/retina/retina.h"
#include "stages/random/permutation.h"

namespace stages {
namespace {

/// Draws the photographs of one set and writes them.
class RetinaMaker {
 public:
  RetinaMaker(const std::filesystem::path& folder, const MadeImages& images, const MakeCallbacks& callbacks,
              std::int64_t fewest)
      : images_(checked(images, fewest)), callbacks_(callbacks), made_(folder, *callbacks.storage, "/root") {}

  void create(const std::string& folder) { made_.create(folder); }
  void write(const std::string& name, const std::string& text) { made_.write(name, text); }
  void publish() { made_.publish(); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(images_.seed); }

  /// Photograph number `index` of a grade.
  void photograph(const std::string& name, std::int64_t grade, std::int64_t index) {
    check_cancelled(callbacks_);
    const Image image =
        draw_retina(grade, static_cast<int>(images_.size),
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
        .with_help("there are " + std::to_string(kGrades));
  }

  const MadeImages images_;
  const MakeCallbacks& callbacks_;
  runner::NewFolder made_;
  std::int64_t done_ = 0;
};

/// "0a1b2c3d4e5f", as APTOS calls its photographs.
std::string drawn_id(std::uint64_t number) {
  std::string id;
  for (int digit = 0; digit < 12; ++digit, number >>= 4) id += "0123456789abcdef"[number & 15];
  return id;
}

}  // namespace

void make_aptos_2019(const std::filesystem::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
  RetinaMaker made(folder, images, callbacks, /*fewest=*/1);
  made.create("train_images");
  std::string table = "id_code,diagnosis\n";
  const Permutation places(images.count(), made.seed(), 0);
  for (std::int64_t place = 0; place < places.size(); ++place) {
    const std::int64_t grade = places[place] / images.per_class, index = places[place] % images.per_class;
    const std::string id = drawn_id(Random({made.seed(), static_cast<std::uint64_t>(place)}).next());
    made.photograph("train_images/" + id + ".png", grade, index);
    table += id + "," + std::to_string(grade) + "\n";
  }
  made.write("train.csv", table);
  made.publish();
}

void make_eyepacs_2015(const std::filesystem::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
  RetinaMaker made(folder, images, callbacks, /*fewest=*/2);
  made.create("train");
  made.create("test");
  std::string labels = "image,level\n", solution = "image,level,Usage\n";
  // The photographs, by their grades, in pairs: the eyes of a patient.
  const Permutation patients((images.count() + 1) / 2, made.seed(), 0);
  for (std::int64_t place = 0; place < patients.size(); ++place) {
    const bool is_test = place >= (patients.size() + 1) / 2;
    for (const std::int64_t eye : {0, 1}) {
      const std::int64_t number = 2 * patients[place] + eye;
      if (number == images.count()) continue;
      const std::int64_t grade = number / images.per_class;
      const std::string name = std::to_string(10 + 3 * place) + (eye == 0 ? "_left" : "_right");
      made.photograph((is_test ? "test/" : "train/") + name + ".jpeg", grade, number % images.per_class);
      (is_test ? solution : labels) +=
          name + "," + std::to_string(grade) + (is_test ? place % 5 == 0 ? ",Public\n" : ",Private\n" : "\n");
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
    for (const char* const part : {"train/", "val/", "test/"}) made.create(part + std::to_string(grade));
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      const char* const part = i < held ? "test/" : i < 2 * held ? "val/" : "train/";
      made.photograph(part + std::to_string(grade) + "/" + padded(i + 1, 5) + ".jpg", grade, i);
    }
  }
  made.publish();
}

}  // namespace stages
