#include "stages/contrastive/data_stanford_cars.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/data/annotation_files.h"
#include "stages/data/image_files.h"
#include "stages/data/image_stage.h"
#include "stages/data/image_writer.h"
#include "stages/data/mat_file.h"
#include "stages/data/shapes.h"
#include "stages/random/random.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_stanford_cars(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  double validation = 0;
  bool crop_to_box = false;
  ImageSource source;
  reader.read("validation", validation);
  reader.read("split_seed", source.split_seed);
  reader.read("crop_to_box", crop_to_box);
  const auto labels = runner::choice<CarLabels>(
      reader, "labels", {{"model", CarLabels::kModel}, {"make", CarLabels::kMake}});
  source.divided_by = labels == CarLabels::kMake ? "makes" : "models";
  source.captions = read_captions(reader, {"name", "make", "model", "year"});
  if (validation > 0) source.split = {.train = 1 - validation, .validation = validation, .test = 0};
  source.folds = read_folds(reader);
  source.list = [root = options.root, labels, crop_to_box, outside = options.allow_outside] {
    return list_stanford_cars(root, labels, crop_to_box, outside);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataStanfordCars = {.name = "data.stanford_cars",
                                                    .create = create_stanford_cars};

namespace {

namespace fs = std::filesystem;
using runner::Diagnostics;
using runner::ErrorCode;

constexpr const char *kCarsFolder = "stanford_cars", *kDevkit = "devkit",
                     *kClassFile = "cars_meta.mat", *kTrainAnnotations = "cars_train_annos.mat",
                     *kOtherEdition = "cars_annos.mat";
/// The folders that may contain the devkit, as published or on Kaggle.
constexpr std::array kDevkits = {"devkit", "car_devkit/devkit", "cars_devkit/devkit", "car_devkit",
                                 "cars_devkit"};
/// The last of these is the name that browsers give a second download; Kaggle uses it, too.
constexpr std::array kTestAnnotations = {"cars_test_annos_withlabels.mat",
                                         "cars_test_annos_withlabels (1).mat"};
constexpr std::array<std::string_view, 3> kTwoWordMakes = {"AM General", "Aston Martin",
                                                           "Land Rover"};
constexpr std::array kBoxFields = {"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"};
constexpr std::size_t kNamedCars = 10;
constexpr const char* kUnpackHelp =
    "unpack the image archives again: cars_train.tgz and cars_test.tgz contain the folders "
    "cars_train and cars_test";

bool is_year(std::string_view word) {
  return word.size() == 4 && word.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Returns a record's field as an integer; nullopt if it is something else.
std::optional<std::int64_t> number_in(const MatCell& cell) {
  const auto* const number = std::get_if<std::int64_t>(&cell);
  return number ? std::optional(*number) : std::nullopt;
}

class CarLister {
 public:
  CarLister(const fs::path& root, CarLabels labels, bool boxes)
      : root_(root),
        devkit_(devkit_in(root) + '/'),
        labels_(labels),
        has_boxes_(boxes),
        files_(root) {
    list_.root = root;
  }

  void read() {
    read_names();
    read_annotations(devkit_ + kTrainAnnotations, Part::kTrain);
    if (const std::string test = test_annotations(); !test.empty())
      read_annotations(test, Part::kTest);
    else report_no_test();
    if (files_.is_faultless() && list_[Part::kTrain].empty())
      files_.fault(devkit_ + kTrainAnnotations, "it has no images");
  }

  /// Returns the path of the annotation folder, relative to `root`.
  static std::string devkit_in(const fs::path& root) {
    std::error_code error;
    for (const char* const folder : kDevkits)
      if (fs::exists(root / folder / kTrainAnnotations, error)) return folder;
    return kDevkit;
  }

  Diagnostics errors() const { return files_.errors(); }

  ImageList list() {
    list_.annotations = files_.digest();
    return std::move(list_);
  }

 private:
  /// Returns the path of the annotations for the test images, in the root, in the devkit or next to
  /// it; empty if there are none.
  std::string test_annotations() const {
    const std::string around = devkit_.substr(0, devkit_.rfind('/', devkit_.size() - 2) + 1);
    for (const std::string& folder :
         {std::string(), devkit_, devkit_ == "devkit/" ? std::string() : around}) {
      for (const char* const name : kTestAnnotations)
        if (files_.has(folder + name)) return folder + name;
    }
    return "";
  }

  void read_names() {
    const std::string class_file = devkit_ + kClassFile;
    const auto bytes = files_.read(class_file, kMaxMatBytes);
    if (!bytes) return;
    std::vector<std::string> names;
    try {
      names = read_mat_texts(*bytes, "class_names");
    } catch (const std::invalid_argument& problem) {
      return fault_of(class_file, problem);
    }
    if (names.empty()) files_.fault(class_file, "it lists no classes");
    std::set<std::string> makes;
    list_.facts.fields = {"name", "make", "model", "year"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto car = car_name(names[i]);
      const std::string shown =
          "class " + std::to_string(i + 1) + ", '" + runner::printable_ascii(names[i]) + "',";
      if (!car) files_.fault(class_file, shown + " does not have the form MAKE MODEL YEAR");
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i))
        files_.fault(class_file, shown + " appears twice");
      if (!car) continue;
      list_.facts.rows.push_back({names[i], car->make, car->model, car->year});
      makes.insert(car->make);
    }
    count_ = static_cast<std::int64_t>(names.size());
    if (labels_ == CarLabels::kModel) list_.classes = std::move(names);
    else list_.classes.assign(makes.begin(), makes.end());
  }

  std::int64_t label_of(std::int64_t number) const {
    if (labels_ == CarLabels::kModel) return number;
    const std::string& make = list_.facts.rows[static_cast<std::size_t>(number)][1];
    return std::ranges::lower_bound(list_.classes, make) - list_.classes.begin();
  }

  void read_annotations(const std::string& file, Part part) {
    const auto bytes = files_.read(file, kMaxMatBytes);
    if (!bytes) return;
    MatRecords records;
    try {
      records = read_mat_records(*bytes, "annotations");
    } catch (const std::invalid_argument& problem) {
      return fault_of(file, problem);
    }
    const auto field = [&](const char* name) {
      return static_cast<std::size_t>(std::ranges::find(records.fields, name) -
                                      records.fields.begin());
    };
    std::vector<std::string> wanted = {"class", "fname"};
    if (has_boxes_) wanted.insert(wanted.end(), kBoxFields.begin(), kBoxFields.end());
    std::erase_if(wanted, [&](const std::string& name) {
      return field(name.c_str()) < records.fields.size();
    });
    if (!wanted.empty()) return report_lacking(file, records, wanted);

    std::set<std::string> names;
    const std::string folder = image_folder(part == Part::kTrain ? "cars_train" : "cars_test");
    for (std::size_t i = 0; i < records.rows.size(); ++i) {
      const std::vector<MatCell>& record = records.rows[i];
      const std::string shown = "image " + std::to_string(i + 1);
      const auto number = number_in(record[field("class")]);
      const auto* const name = std::get_if<std::string>(&record[field("fname")]);
      if (!name || name->find('/') != std::string::npos || !is_image_path(*name)) {
        files_.fault(file, shown + " has no file name in fname");
        continue;
      }
      const std::string called = shown + ", '" + *name + "',";
      if (!number || *number < 1 || (count_ > 0 && *number > count_)) {
        files_.fault(
            file, called + " has the class " +
                      (number ? std::to_string(*number) : "(not a number)") +
                      (count_ > 0 ? ", but the classes are 1 to " + std::to_string(count_) : ""));
        continue;
      }
      if (!names.insert(*name).second) files_.fault(file, called + " appears twice");
      ImageFile image{.name = folder + *name, .facts = *number - 1};
      if (has_boxes_ && !(image.box = box_of(records, record))) {
        files_.fault(file, called + " has no box, or an empty one");
        continue;
      }
      if (files_.is_faultless()) {
        image.label = label_of(*number - 1);
        list_[part].push_back(std::move(image));
      }
    }
  }

  std::optional<Box> box_of(const MatRecords& records, const std::vector<MatCell>& record) const {
    std::array<int, 4> edges{};
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const auto place = std::ranges::find(records.fields, kBoxFields[i]) - records.fields.begin();
      const auto number = number_in(record[static_cast<std::size_t>(place)]);
      if (!number || *number < -kMaxSide || *number > kMaxSide) return std::nullopt;
      edges[i] = static_cast<int>(*number);
    }
    const auto [left, top, right, bottom] = edges;
    if (right < left || bottom < top) return std::nullopt;
    return Box{left - 1, top - 1, right - left + 1, bottom - top + 1};
  }

  /// Reports that a file's records lack fields that this dataset has.
  void report_lacking(const std::string& file, const MatRecords& records,
                      const std::vector<std::string>& lacking) {
    std::string message = "its records lack " + runner::listed(lacking, kNamedCars, "'") +
                          "; they have " + runner::listed(records.fields, kNamedCars, "'");
    if (lacking == std::vector<std::string>{"class"})
      message += ": this file lists the test images without their classes";
    files_.fault(file, message);
  }

  void fault_of(const std::string& file, const std::invalid_argument& problem) {
    files_.fault(file, std::string(problem.what()) + "; is it from a different devkit?");
  }

  /// Returns "cars_train/", or "cars_train/cars_train/" if that is a folder.
  std::string image_folder(const std::string& name) const {
    std::error_code error;
    const bool is_nested = fs::is_directory(root_ / name / name, error);
    return is_nested ? name + "/" + name + "/" : name + "/";
  }

  void report_no_test() {
    list_.no_test = {
        ErrorCode::kMissingAnnotations,
        {},
        "",
        "there are no test images: " + std::string(kTestAnnotations[0]) +
            ", which contains their classes, is neither in '" + root_.string() + "' nor in " +
            devkit_.substr(0, devkit_.size() - 1) +
            (files_.has(devkit_ + "cars_test_annos.mat")
                 ? "; cars_test_annos.mat contains only their boxes"
                 : ""),
        "it was published next to the devkit: put it into '" + root_.string() +
            "', or test on the validation images: evaluate.inputs: {test: data.validation}"};
  }

  const fs::path root_;
  const std::string devkit_;  // "devkit/"
  const CarLabels labels_;
  const bool has_boxes_;
  AnnotationFiles files_;
  std::int64_t count_ = 0;  // number of published classes; 0: their names could not be read
  ImageList list_;
};

/// Returns the end of a message if `root` contains another edition of the dataset; otherwise "".
std::string found_instead(const fs::path& root) {
  std::error_code error;
  return fs::exists(root / kOtherEdition, error)
             ? "; its cars_annos.mat belongs to another edition, with images in car_ims, and is "
               "not read"
             : "";
}

}  // namespace

std::optional<CarName> car_name(std::string_view name) {
  const std::size_t last = name.rfind(' ');
  if (last == name.npos || !is_year(name.substr(last + 1))) return std::nullopt;
  CarName car{.make = {}, .model = {}, .year = std::string(name.substr(last + 1))};
  const std::string_view rest = name.substr(0, last);
  const auto* const two = std::ranges::find_if(kTwoWordMakes, [&](std::string_view make) {
    return rest.starts_with(make) && rest.substr(make.size()).starts_with(' ');
  });
  const std::size_t size = two != kTwoWordMakes.end() ? two->size() : rest.find(' ');
  if (size == 0 || size == rest.npos || size + 1 >= rest.size()) return std::nullopt;
  car.make = rest.substr(0, size);
  car.model = rest.substr(size + 1);
  return car;
}

runner::Result<ImageList> list_stanford_cars(const fs::path& root, CarLabels labels, bool boxes,
                                             bool allow_outside) {
  std::optional<fs::path> folder;
  for (const char* const devkit : kDevkits)
    if (!folder) folder = published_folder(root, kCarsFolder, devkit);
  if (!folder) {
    return runner::Diagnostic{
        ErrorCode::kMissingFolder,
        {},
        "",
        "Stanford Cars is not in '" + root.string() + "', which contains neither a folder named " +
            kDevkit + " nor one named " + kCarsFolder + found_instead(root),
        "check root: it must contain cars_train, cars_test and devkit, with cars_meta.mat and "
        "cars_train_annos.mat in devkit; `retort data make stanford_cars` creates a small dataset "
        "in the same format"};
  }
  CarLister lister(*folder, labels, boxes);
  lister.read();
  Diagnostics errors = lister.errors();
  if (!errors.empty()) return errors;
  ImageList list = lister.list();
  check_files(list, allow_outside, errors, kNamedCars, kUnpackHelp);
  if (!errors.empty()) return errors;
  return list;
}

namespace {

constexpr std::int64_t kFewestCars = 2;  // one for each part
constexpr std::int64_t kMostCars = 0xffff, kModelsOfAMake = 3, kGrayCarEvery = 10;
constexpr std::array<std::string_view, 8> kMakes = {
    "AM General", "Aston Martin", "Audi", "BMW", "Ford", "Honda", "Land Rover", "Volvo"};
constexpr std::array<std::string_view, 3> kBodies = {"Sedan", "Coupe", "SUV"};

/// Returns the name of a class: "Audi Stripes Rising SUV 2008".
std::string model_name(std::int64_t label) {
  const auto number = static_cast<std::size_t>(label);
  std::string name(kMakes[number / kModelsOfAMake]);
  std::string_view words = shape_names()[number];
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find('_'));
    name += " " + capitalized(word);
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return name + " " + std::string(kBodies[number % kBodies.size()]) + " " +
         std::to_string(2000 + label);
}

/// The images of a part, and their annotations.
struct MadeCars {
  std::string folder;
  std::int64_t per_class = 0, first = 0;  // images per class; number of the first image of each
                                          // class
  MatRecords plain = {{"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "fname"}, {}};
  MatRecords labeled = {{"bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"}, {}};

  void annotate(const Box& box, std::int64_t label, const std::string& name) {
    const std::vector<MatCell> edges = {std::int64_t{box.left + 1}, std::int64_t{box.top + 1},
                                        std::int64_t{box.left + box.width},
                                        std::int64_t{box.top + box.height}};
    plain.rows.push_back(edges);
    plain.rows.back().emplace_back(name);
    labeled.rows.push_back(edges);
    labeled.rows.back().emplace_back(label + 1);
    labeled.rows.back().emplace_back(name);
  }
};

}  // namespace

void make_stanford_cars(const std::filesystem::path& folder, const MadeImages& images,
                        const MakeCallbacks& callbacks) {
  check(images, kFewestCars);
  if (images.count() > kMostCars) {
    throw runner::StageError(runner::ErrorCode::kNotAllowedValue,
                             "cannot make " + std::to_string(images.count()) + " images")
        .at("/make")
        .with_help("make fewer; this format allows at most " + std::to_string(kMostCars));
  }
  const auto seed = static_cast<std::uint64_t>(images.seed);
  runner::NewFolder made(folder, *callbacks.storage, "/root");
  made.create("devkit");
  const std::int64_t training = (images.per_class + 1) / 2;
  std::array<MadeCars, 2> parts = {
      MadeCars{.folder = "cars_train/", .per_class = training},
      MadeCars{
          .folder = "cars_test/", .per_class = images.per_class - training, .first = training}};
  std::int64_t done = 0;
  for (MadeCars& part : parts) {
    made.create(part.folder.substr(0, part.folder.size() - 1));
    const Permutation places(images.classes * part.per_class, seed, part.first);
    for (std::int64_t place = 0; place < places.size(); ++place) {
      check_canceled(callbacks);
      const std::int64_t label = places[place] / part.per_class,
                         index = part.first + places[place] % part.per_class;
      const BoxedImage picture =
          draw_boxed_shape(static_cast<std::size_t>(label), static_cast<int>(images.size), seed,
                           static_cast<std::uint64_t>(index));
      const std::string name = padded(place + 1, 5) + ".jpg";
      part.annotate(picture.box, label, name);
      made.write(part.folder + name, (place + 1) % kGrayCarEvery == 0
                                         ? encode_gray_jpeg(picture.image, kMadeQuality)
                                         : encode_jpeg(picture.image, kMadeQuality));
      if (callbacks.progress) callbacks.progress(++done, images.count());
    }
  }

  std::vector<std::string> names;
  for (std::int64_t label = 0; label < images.classes; ++label) names.push_back(model_name(label));
  made.write("devkit/cars_meta.mat", mat_texts_file("class_names", names));
  made.write("devkit/cars_train_annos.mat", mat_records_file("annotations", parts[0].labeled));
  made.write("devkit/cars_test_annos.mat", mat_records_file("annotations", parts[1].plain));
  made.write("cars_test_annos_withlabels.mat", mat_records_file("annotations", parts[1].labeled));
  made.publish();
}

}  // namespace stages
