# How our own code is compiled, and the functions that make targets of folders.

# Texts for people are cut to their fields on purpose (od_error), so a possible cut is no warning.
add_library(od_flags INTERFACE)
target_include_directories(od_flags INTERFACE "${CMAKE_SOURCE_DIR}/src" "${CMAKE_SOURCE_DIR}/include")
target_compile_options(od_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-D_GNU_SOURCE -Wall -Wextra -Wpedantic
    -Wshadow -Wconversion -Wstrict-prototypes -Wvla $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>>)
if(OD_WERROR)
    target_compile_options(od_flags INTERFACE -Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" AND NOT OD_SANITIZE)
    target_compile_options(od_flags INTERFACE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
endif()

# od_room(NAME DIR dir [DEPS rooms...] [LIBS libraries...])
# Makes the static library od_NAME of all C files under src/DIR; a room without files is skipped.
# DEPS are other rooms (by NAME). LIBS are foreign: their headers are seen in this room only.
# od_rooms collects the rooms that exist.
function(od_room name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "DIR" "DEPS;LIBS")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${arg_DIR}/*.c")
    if(NOT sources)
        return()
    endif()
    add_library(od_${name} STATIC ${sources})
    set_target_properties(od_${name} PROPERTIES C_VISIBILITY_PRESET hidden)
    target_link_libraries(od_${name} PRIVATE od_flags ${arg_LIBS} Threads::Threads)
    foreach(dep ${arg_DEPS})
        target_link_libraries(od_${name} PUBLIC $<TARGET_NAME_IF_EXISTS:od_${dep}>)
    endforeach()
    set_property(GLOBAL APPEND PROPERTY od_rooms od_${name})
endfunction()

# od_proto(): the library od_proto of all messages under proto/, generated into build/.../gen.
function(od_proto)
    add_custom_target(od_generated)
    file(GLOB_RECURSE protos RELATIVE "${CMAKE_SOURCE_DIR}/proto" CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/proto/*.proto")
    if(NOT protos)
        return()
    endif()
    set(gen "${CMAKE_BINARY_DIR}/gen")
    set(sources)
    file(MAKE_DIRECTORY "${gen}")
    foreach(proto ${protos})
        string(REGEX REPLACE "\\.proto$" ".pb-c" stem "${proto}")
        add_custom_command(OUTPUT "${gen}/${stem}.c" "${gen}/${stem}.h"
            COMMAND "${PROTOC_C}" "--c_out=${gen}" "-I${CMAKE_SOURCE_DIR}/proto" "${CMAKE_SOURCE_DIR}/proto/${proto}"
            DEPENDS "${CMAKE_SOURCE_DIR}/proto/${proto}" VERBATIM)
        list(APPEND sources "${gen}/${stem}.c")
    endforeach()
    add_custom_target(od_generated_proto DEPENDS ${sources})
    add_dependencies(od_generated od_generated_proto)
    add_library(od_proto STATIC ${sources})
    add_dependencies(od_proto od_generated_proto)
    od_third_party(od_proto)
    target_include_directories(od_proto SYSTEM PUBLIC "${gen}")
    target_link_libraries(od_proto PUBLIC od_protobuf_c)
endfunction()

# od_embed_protos(TARGET): what proto/ says, as tables of TARGET.
function(od_embed_protos target)
    file(GLOB_RECURSE protos CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/proto/*.proto")
    set(set "${CMAKE_BINARY_DIR}/gen/openduck.protoset")
    set(out "${CMAKE_BINARY_DIR}/gen/openduck_protos.c")
    set(script "${CMAKE_SOURCE_DIR}/scripts/embed_protos.py")
    add_custom_command(OUTPUT "${out}"
        COMMAND "${PROTOC}" "-I${CMAKE_SOURCE_DIR}/proto" --include_imports "--descriptor_set_out=${set}" ${protos}
        COMMAND "${Python3_EXECUTABLE}" "${script}" "${set}" "${out}"
        DEPENDS ${protos} "${script}" BYPRODUCTS "${set}" VERBATIM)
    target_sources(${target} PRIVATE "${out}")
endfunction()

# od_embed_page(TARGET DIR): the files of src/DIR, as a table of TARGET.
function(od_embed_page target dir)
    file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${dir}/*")
    set(out "${CMAKE_BINARY_DIR}/gen/openduck_page.c")
    set(script "${CMAKE_SOURCE_DIR}/scripts/embed_page.py")
    add_custom_command(OUTPUT "${out}" COMMAND "${Python3_EXECUTABLE}" "${script}" "${out}" ${files}
        DEPENDS ${files} "${script}" VERBATIM)
    target_sources(${target} PRIVATE "${out}")
endfunction()

# od_test_name(OUT FILE DIR PREFIX): tests/unit/query/test_wire.c becomes unit.query.wire.
function(od_test_name out file dir prefix)
    file(RELATIVE_PATH path "${dir}" "${file}")
    string(REGEX REPLACE "\\.c$" "" path "${path}")
    string(REGEX REPLACE "(^|/)(test|fuzz)_" "\\1" path "${path}")
    string(REPLACE "/" "." path "${path}")
    set(${out} "${prefix}.${path}" PARENT_SCOPE)
endfunction()

# od_test_links(TARGET): all rooms, their foreign headers, and tests/support.
function(od_test_links target)
    get_property(rooms GLOBAL PROPERTY od_rooms)
    target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests" "${CMAKE_SOURCE_DIR}/ext")
    target_link_libraries(${target} PRIVATE od_flags $<TARGET_NAME_IF_EXISTS:od_test_support> od_server_host ${rooms}
        $<TARGET_NAME_IF_EXISTS:od_proto> od_nghttp2 od_nanoarrow duckdb_c od_openssl Threads::Threads)
endfunction()

# od_unit_tests(): a binary and a ctest for each tests/unit/**/test_*.c.
function(od_unit_tests)
    set(dir "${CMAKE_SOURCE_DIR}/tests/unit")
    file(GLOB_RECURSE tests CONFIGURE_DEPENDS "${dir}/test_*.c")
    foreach(test ${tests})
        od_test_name(name "${test}" "${dir}" unit)
        add_executable(${name} "${test}")
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
        od_test_links(${name})
        target_link_libraries(${name} PRIVATE PkgConfig::CMOCKA)
        add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
        set_tests_properties(${name} PROPERTIES ENVIRONMENT "OD_BUILD_DIR=${CMAKE_BINARY_DIR}")
    endforeach()
endfunction()

# od_fuzz_targets(): each tests/fuzz/fuzz_X.c is a fuzzer under the fuzz preset; elsewhere it replays
# tests/fuzz/corpus/X as the ctest fuzz.X.
function(od_fuzz_targets)
    set(dir "${CMAKE_SOURCE_DIR}/tests/fuzz")
    file(GLOB tests CONFIGURE_DEPENDS "${dir}/fuzz_*.c")
    foreach(test ${tests})
        od_test_name(name "${test}" "${dir}" fuzz)
        string(REGEX REPLACE "^fuzz\\." "" short "${name}")
        if(OD_FUZZ)
            add_executable(${name} "${test}")
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
            set(run ${name} -runs=0 "${dir}/corpus/${short}")
        else()
            add_executable(${name} "${test}" "${dir}/replay_main.c")
            set(run ${name} "${dir}/corpus/${short}")
        endif()
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
        od_test_links(${name})
        add_test(NAME ${name} COMMAND ${run})
    endforeach()
endfunction()

# od_programs(FOLDER...): a program for each C file in the folders, in build/.../programs: helpers of tests, benchmarks.
function(od_programs)
    foreach(dir ${ARGN})
        file(GLOB programs CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${dir}/*.c")
        foreach(program ${programs})
            get_filename_component(name "${program}" NAME_WE)
            add_executable(${name} "${program}")
            set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/programs")
            od_test_links(${name})
        endforeach()
    endforeach()
endfunction()

# od_extension(NAME DIRS dirs... LINKS targets...): the loadable DuckDB extension ext/NAME.duckdb_extension.
function(od_extension name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DIRS;LINKS")
    set(sources)
    foreach(dir ${arg_DIRS})
        file(GLOB found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${dir}/*.cpp")
        list(APPEND sources ${found})
    endforeach()
    if(NOT EXISTS "${CMAKE_SOURCE_DIR}/ext/${name}/extension.cpp")
        return()
    endif()
    set(target ${name}_ext)
    set(out "${CMAKE_BINARY_DIR}/ext")
    add_library(${target} MODULE ${sources})
    set_target_properties(${target} PROPERTIES
        PREFIX "" OUTPUT_NAME "${name}" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/ext/unsigned"
        CXX_STANDARD 17 CXX_EXTENSIONS OFF LINKER_LANGUAGE CXX CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
        INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON OD_OWN_OPENSSL ON)
    target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/ext")
    target_compile_definitions(${target} PRIVATE DUCKDB_BUILD_LOADABLE_EXTENSION
        OD_VERSION="${PROJECT_VERSION}" OD_DUCKDB_VERSION="v${OD_DUCKDB_VERSION}")
    # -g1: line tables only; DuckDB's headers make full debug information slow and huge.
    target_compile_options(${target} PRIVATE -g1 -Wall -Wextra -Wno-unused-parameter)
    foreach(link ${arg_LINKS})
        target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:${link}>)
    endforeach()
    target_link_libraries(${target} PRIVATE od_flags duckdb_cpp Threads::Threads)
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,--gc-sections
        -Wl,--no-undefined)
    target_precompile_headers(${target} PRIVATE
        "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/ext/common/duckdb_headers.hpp>")
    add_custom_command(TARGET ${target} POST_BUILD
        COMMAND "${Python3_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/scripts/extension_footer.py"
            --duckdb "v${OD_DUCKDB_VERSION}" --version "v${PROJECT_VERSION}"
            "$<TARGET_FILE:${target}>" "${out}/${name}.duckdb_extension"
        BYPRODUCTS "${out}/${name}.duckdb_extension" VERBATIM)
endfunction()
