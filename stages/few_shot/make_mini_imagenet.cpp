#include "stages/few_shot/make_mini_imagenet.h"

#include <algorithm>
#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/csv.h"
#include "stages/data/image_writer.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {
namespace {

constexpr std::int64_t kFewestClasses = 3;  // one for each part

/// A part of the dataset, as a list of paths and labels, and as a table.
struct MadePart {
  const char *json, *csv;
  std::int64_t classes;
  nlohmann::ordered_json paths = nlohmann::ordered_json::array(),
                         labels = nlohmann::ordered_json::array();
  std::string table = "filename,label\n";
};

}  // namespace

void make_mini_imagenet(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks) {
  check(images, 1);
  if (images.classes < kFewestClasses) {
    throw runner::StageError(
        runner::ErrorCode::kNotAllowedValue,
        "cannot make " + std::to_string(images.classes) + " classes in this format")
        .at("/make/classes")
        .with_help(
            "no class is shared between parts, so make at least 3; 20 are enough for 5-way "
            "episodes");
  }
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  made.create("Dataset");
  const std::int64_t quarter = std::max<std::int64_t>(1, images.classes / 4);
  std::array<MadePart, 3> parts = {MadePart{"base.json", "train.csv", images.classes - 2 * quarter},
                                   MadePart{"val.json", "val.csv", quarter},
                                   MadePart{"novel.json", "test.csv", quarter}};
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  const Permutation drawn(images.classes, static_cast<std::uint64_t>(images.seed), 0);
  std::int64_t done = 0;
  for (MadePart& part : parts) {
    for (std::int64_t i = 0; i < part.classes; ++i) {
      const auto label = static_cast<std::int64_t>(names.size());
      const auto shape = static_cast<std::size_t>(drawn[label]);
      const std::string name(shape_names()[shape]);
      names.push_back(name);
      made.create("Dataset/" + name);
      for (std::int64_t image = 0; image < images.per_class; ++image) {
        check_canceled(callbacks);
        const std::string file = name + padded(image + 1, 8) + ".jpg",
                          path = "Dataset/" + name + "/" + file;
        const Random random(
            {static_cast<std::uint64_t>(images.seed), shape, static_cast<std::uint64_t>(image)});
        made.write(path, encode_jpeg(draw_shape(shape, static_cast<int>(images.size), random),
                                     kMadeQuality));
        part.paths.push_back(path);
        part.labels.push_back(label);
        part.table += runner::csv_line({file, name});
        if (callbacks.progress) callbacks.progress(++done, images.count());
      }
    }
  }
  nlohmann::ordered_json paths = nlohmann::ordered_json::array(),
                         labels = nlohmann::ordered_json::array();
  const auto list = [&](const nlohmann::ordered_json& its_paths,
                        const nlohmann::ordered_json& its_labels) {
    return nlohmann::ordered_json{
               {"label_names", names}, {"image_names", its_paths}, {"image_labels", its_labels}}
               .dump() +
           "\n";
  };
  for (const MadePart& part : parts) {
    made.write(part.csv, part.table);
    made.write(part.json, list(part.paths, part.labels));
    paths.insert(paths.end(), part.paths.begin(), part.paths.end());
    labels.insert(labels.end(), part.labels.begin(), part.labels.end());
  }
  made.write("all.json", list(paths, labels));
  made.publish();
}

}  // namespace stages
