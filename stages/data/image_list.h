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

/// "train", "validation" or "test".
std::string_view name(Part part);

/// A file and its class.
struct ImageFile {
  std::string name;  ///< relative to the root: "iris/image_0401.jpg"
  std::int64_t label = 0;
  std::optional<Box> box =
      {};                  ///< the annotated region of its image to use: may extend over the edges
  std::int64_t facts = 0;  ///< the facts for its captions: an index into ImageList::facts
  /// Images with the same value belong in one part: those of a patient or, if `names_patient` is
  /// false, copies of one image. Empty: unknown.
  std::string patient = {};
  bool names_patient = false;  ///< the file name identifies the patient
};

/// The image files below a root and their annotations; no image has been opened.
struct ImageList {
  std::filesystem::path root;
  std::vector<std::string> classes;      ///< names; a label is an index here
  std::vector<std::string> class_words;  ///< the class names as used in texts; empty: the names of
                                         ///< the classes
  std::array<std::vector<ImageFile>, kSplitParts> parts;  ///< their order is that of the samples
  std::string annotations;           ///< SHA-256 of the annotation files; empty: folders give the
                                     ///< annotations
  bool divided = false;              ///< root has part folders: train, validation, test
  std::vector<std::string> ignored;  ///< other folders next to those of parts
  runner::NotTaken not_taken;        ///< other files found there
  std::vector<std::string> notes;    ///< other messages for the user, a line each
  std::optional<runner::Diagnostic> no_train,
      no_test;        ///< why a part has no images; nullopt: no reason
  ImageFacts facts;   ///< the facts for captions
  Captions captions;  ///< empty if no captions are wanted

  std::vector<ImageFile>& operator[](Part part) { return parts[static_cast<std::size_t>(part)]; }
  const std::vector<ImageFile>& operator[](Part part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};

/// Makes {name} available to captions: the entry of `names` for the image's class.
void add_names(ImageList& list, std::vector<std::string> names);

/// Is a path from an annotation file below a folder, with the name of an image?
bool is_image_path(std::string_view path);

/// Lists root/CLASS/IMAGE, or root/PART/CLASS/IMAGE with the usual part names
/// (runner::part_of_folder()), where IMAGE has an image's name (runner/shared/text/image_names.h).
/// Classes and files are sorted bytewise; all are in the first part if the list is not `divided`.
/// Without a folder train the classes are those of the other parts, for a run that only tests.
/// Reports all errors at once, without a place: a missing folder, no classes, classes without
/// images, a class of validation or test that train lacks, and, unless `allow_outside`, links out
/// of root.
runner::Result<ImageList> list_images(const std::filesystem::path& root, bool allow_outside);

/// Lists folder/CLASS/IMAGE, all in the first part, whatever the class names are. File names are
/// relative to `folder`; links may lead anywhere below `bounds`, which contains it. If `only` names
/// classes, no other folder is inspected, and missing ones are left out. Reports errors as
/// list_images() does.
runner::Result<ImageList> list_class_folders(const std::filesystem::path& folder,
                                             const std::filesystem::path& bounds,
                                             bool allow_outside,
                                             const std::set<std::string>& only = {});

/// A SHA-256 in hexadecimal of the files' names, labels and contents, of the class names and of the
/// annotations: it changes if any of them or their order changes. A file is read once
/// (FileDigests); above kLargestContents, the states of the files replace their contents.
std::string fingerprint(const ImageList& list);

/// Shares of each class; their sum is at most 1.
struct SplitOptions {
  double train = 0.8, validation = 0, test = 0.2;
};

/// Divides the training images of each class among the parts, at random as a function of `seed` and
/// their names, by largest remainder; they keep their order, after the images a part already has.
/// Each part with a share gets an image of every class that has enough of them, train before test
/// before validation. Images of one patient stay together: patients are divided as images are, each
/// counted once, in the highest class of their images.
///
/// The images of a class are ranked by a hash of (seed, name), and the parts take consecutive
/// ranges of that ranking: train, validation, test. So the shares are exact. Adding or removing an
/// image moves no image of another class, and of its own class only a few at the boundaries between
/// parts. Once a run has begun, its record of the division (stages/artifact/division.h) keeps these
/// in place too.
void split(ImageList& list, const SplitOptions& options, std::uint64_t seed);

}  // namespace stages
