/* php-generator.h - generators of PHP that wait for others (`yield from`).  For code of the host and of BPF.  Thread: any.
 *
 *     frame of the running one ──► frame without a function ──► frame of the function that runs all
 *                                    │ lies in
 *     outermost generator ◄──────────┘      its parent: the one that it waits for ──► ... ──► the running one, without a parent
 *
 * zend_generators.h of PHP 8.2 to 8.5.  Where the frame does not lie there, the generator has another layout. */
#pragma once

enum {
	PHP_GENERATOR_FRAME = 56,   /* execute_data */
	PHP_GENERATOR_PARENT = 152, /* node.parent */
	PHP_GENERATOR_FAKE = 184,   /* execute_fake */
	PHP_FRAME_THIS = 32 /* of a frame: the object; of one without a function: the generator */
};
