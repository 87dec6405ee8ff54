#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"
#include "stages/data/captions.h"
#include "stages/data/image.h"

namespace stages {

enum class Part : std::uint8_t { kTrain, kValidation, kTest };
inline constexpr std::size_t kSplitParts = 3;

/// Returns "train", "validation" or "test".
std::string_view name(Part part);

/// A file and its class.
struct ImageFile {
  std::string name;  ///< relative to the root: "iris/image_0401.jpg"
  std::int64_t label = 0;
  /// The annotated region to use; may extend beyond the image.
  std::optional<Box> box = {};
  std::int64_t facts = 0;  ///< for its captions; an index into ImageList::facts
  /// Images with the same value are kept in one part: images of one patient or group or, if
  /// `names_patient` is false, copies of one image. Empty: unknown.
  std::string patient = {};
  bool names_patient = false;  ///< the file name or the table identifies the patient
  /// Its labels, if the list has label sets: an index into ImageList::label_sets. `label` is then
  /// the label by which a split divides the images.
  std::int64_t label_set = 0;
  /// The values to predict for the image, if the list has targets; `label` is then 0.
  std::vector<double> targets = {};
  /// Other files of the same image, in the folders of its other labels (with_folder_labels()).
  std::vector<std::string> copies = {};
};

/// The image files below a root, and their annotations. Creating a list does not open any images.
struct ImageList {
  std::filesystem::path root;
  std::vector<std::string> classes;      ///< class names; a label is an index into this list
  std::vector<std::string> class_words;  ///< the class names as used in texts; if empty, `classes`
                                         ///< is used
  bool has_order = false;  ///< true if the classes are known to be in ascending order, like grades
  std::array<std::vector<ImageFile>, kSplitParts> parts;  ///< in sample order
  /// SHA-256 of the annotation files; empty: the folders are the annotations.
  std::string annotations;
  bool divided = false;              ///< the root has part folders: train, validation, test
  std::vector<std::string> ignored;  ///< other folders next to the part folders
  runner::NotTaken not_taken;        ///< other files found below the root
  std::vector<std::string> notes;    ///< other messages for the user, one line each
  /// Why a part has no images; nullopt: unknown.
  std::optional<runner::Diagnostic> no_train, no_test;
  ImageFacts facts;   ///< facts that captions can mention
  Captions captions;  ///< empty without captions
  /// True if an image can belong to any number of classes, which are then called labels.
  bool has_label_sets = false;
  /// The distinct sets of labels that occur, each in ascending order.
  std::vector<std::vector<std::int64_t>> label_sets = {};
  /// True if each image has values to predict; `classes` then holds the names of these targets.
  bool has_targets = false;

  std::vector<ImageFile>& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  const std::vector<ImageFile>& operator[](Part part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

/// Makes {name} available to captions; it is replaced by the entry of `names` for the image's
/// class.
void add_names(ImageList& list, std::vector<std::string> names);

/// True if a path from an annotation file is relative, stays below its folder, and ends in the name
/// of an image file.
bool is_image_path(std::string_view path);

/// Lists root/CLASS/IMAGE, or root/PART/CLASS/IMAGE with the usual part names
/// (runner::part_of_folder()), where IMAGE is the name of an image file
/// (runner/shared/text/image_names.h). Classes and files are sorted bytewise. If the list is not
/// `divided`, all images are in the first part. If there is no train folder, as for a run that only
/// tests, the classes come from the other parts. Reports all errors at once, without a location: a
/// missing folder, no classes, classes without images, a class in validation or test that train
/// lacks, and, unless `allow_outside` is true, links that point outside root.
runner::Result<ImageList> list_images(const std::filesystem::path& root, bool allow_outside);

/// Lists folder/CLASS/IMAGE, all in the first part, even if classes are called train or test. File
/// names are relative to `folder`; links may point anywhere below `bounds`, which contains
/// `folder`. If `only` is not empty, only the classes in it are inspected, and those that are
/// missing are left out. Reports errors like list_images().
runner::Result<ImageList> list_class_folders(const std::filesystem::path& folder,
                                             const std::filesystem::path& bounds,
                                             bool allow_outside,
                                             const std::set<std::string>& only = {});

/// Returns the SHA-256, in hexadecimal, of the files' names, labels and contents, the class names
/// and the annotations. It changes if any of these or their order changes. Each file is read once
/// (FileDigests); if the files together exceed kLargestContents, their states are hashed instead of
/// their contents.
std::string fingerprint(const ImageList& list);

}  // namespace stages
